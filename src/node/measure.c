#include "node/measure.h"

#include "node/clock.h"

#include <time.h>

static uint64_t process_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void measure_job(measure *m, const job *work) {
    m->figures.kind[work->kind].jobs++;
    m->figures.kind[work->kind].cpu_ns += m->job_ns;
}

void measure_message(measure *m, uint64_t payload_bytes) {
    m->figures.messages++;
    m->figures.payload_bytes += payload_bytes;
}

void measure_sent(measure *m, uint64_t payload_bytes) { m->figures.payload_bytes += payload_bytes; }

bool measure_iteration(measure *m) {
    uint64_t loop = clock_thread_ns(), process = process_ns(), wall = clock_now_ns();
    if (++m->seen <= MEASURE_WARM_UP) {
        m->figures = (node_figures){0};
        m->loop_start_ns = loop;
        m->process_start_ns = process;
        m->wall_start_ns = wall;
        return false;
    }
    m->figures.iterations++;
    m->figures.loop_ns = loop - m->loop_start_ns;
    m->figures.process_ns = process - m->process_start_ns;
    m->figures.wall_ns = wall - m->wall_start_ns;
    return true;
}
