// A process's measurements of itself, as input for the simulator: processor time of its jobs, and
// of its loop per message and byte. The slower first iterations are left out.
#ifndef BRAID_NODE_MEASURE_H
#define BRAID_NODE_MEASURE_H

#include "braid/job.h"

#include <stdbool.h>
#include <stdint.h>

// Iterations that are not measured: on a shared machine the first ones took up to twice the
// processor time of later ones.
enum { MEASURE_WARM_UP = 5 };

typedef struct node_figures {
    uint16_t stage;
    uint32_t capacity;
    uint64_t iterations;     // iterations measured
    struct {
        uint64_t jobs, cpu_ns;
    } kind[JOB_KINDS];
    uint64_t messages;       // messages received
    uint64_t payload_bytes;  // payload bytes received or sent
    uint64_t loop_ns;        // processor time of the loop's thread
    uint64_t process_ns;     // and of the whole process
    uint64_t wall_ns;
} node_figures;

typedef struct measure {
    node_figures figures;
    uint64_t job_ns;         // of the running job; owned by the compute thread until the job is done
    uint64_t loop_start_ns, process_start_ns, wall_start_ns;
    uint32_t seen;           // all iterations, including those not measured
} measure;

void measure_job(measure *m, const job *work);
void measure_message(measure *m, uint64_t payload_bytes);
void measure_sent(measure *m, uint64_t payload_bytes);
// Ends an iteration. False: it was one of the first, and `figures` is not valid yet. Runs on the
// loop's thread.
bool measure_iteration(measure *m);

#endif
