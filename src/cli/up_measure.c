// braid up --measure: the measured costs of this swarm's peers, as a scenario for `braid sim`
// (docs/results/truth.md).
#include "cli/up_swarm.h"
#include "node/clock.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double LEAST_CORES = 0.05;

// ---- the children's figures

static uint64_t count_of(const json_t *line, const char *name) { return (uint64_t)json_integer_value(json_object_get(line, name)); }

bool measure_line(child *c) {
    json_t *line = strstr(c->line, "\"event\":\"measured\"") ? json_loads(c->line, 0, NULL) : NULL;
    if (!line) return false;
    node_figures *f = &c->figures;
    *f = (node_figures){.stage = (uint16_t)count_of(line, "stage"), .capacity = (uint32_t)count_of(line, "capacity"), .iterations = count_of(line, "iterations"),
                        .messages = count_of(line, "messages"), .payload_bytes = count_of(line, "payload_bytes"), .loop_ns = count_of(line, "loop_ns"),
                        .process_ns = count_of(line, "process_ns"), .wall_ns = count_of(line, "wall_ns")};
    const json_t *jobs = json_object_get(line, "jobs");
    for (size_t i = 0; i < JOB_KINDS; i++) {
        const json_t *pair = json_array_get(jobs, i);
        f->kind[i].jobs = (uint64_t)json_integer_value(json_array_get(pair, 0));
        f->kind[i].cpu_ns = (uint64_t)json_integer_value(json_array_get(pair, 1));
    }
    c->measured = f->iterations > 0;
    json_decref(line);
    return true;
}

// ---- the machine's load

// Idle processor time since the machine started, in seconds; 0: not known.
static double idle_s(void) {
    unsigned long long idle, waiting;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return 0;
    int read = fscanf(file, "cpu %*s %*s %*s %llu %llu", &idle, &waiting);
    fclose(file);
    if (read != 2) return 0;
    return (double)(idle + waiting) / (double)sysconf(_SC_CLK_TCK);
}

// Processor time of our processes, including dead ones.
static double ours_s(const swarm *s) {
    struct timespec t;
    clockid_t clock;
    double all = 0;
    for (uint32_t i = 0; i < s->child_count; i++) {
        child *c = s->children[i];
        if (c->alive && clock_getcpuclockid(c->pid, &clock) == 0 && clock_gettime(clock, &t) == 0) c->processor_s = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
        all += c->processor_s;
    }
    return all + (double)clock_thread_ns() * 1e-9;
}

// The cores available to this swarm: those that it used plus the idle ones. The use by other
// processes is not read: it has a resolution of a hundredth of a second, too coarse if they use
// nearly everything.
static double cores_left(const swarm *s, double wall_s, double idle, double ours) {
    double all = (double)s->machine.processors, left = wall_s > 0 ? (idle + ours) / wall_s : all;
    if (left > all) left = all;
    return left > LEAST_CORES ? left : LEAST_CORES;
}

static void cores_add(up_clock *c, double cores) {
    uint32_t count = c->seen - MEASURE_WARM_UP;
    if (count > c->room) {
        double *larger = realloc(c->cores, 2 * count * sizeof *larger);
        if (!larger) return;
        c->cores = larger;
        c->room = 2 * count;
    }
    c->cores[count - 1] = cores;
}

void measure_iteration_over(swarm *s) {
    up_clock *c = &s->clock;
    double now = (double)clock_now_ns() * 1e-9, idle = idle_s(), ours = ours_s(s);
    if (++c->seen > MEASURE_WARM_UP) cores_add(c, cores_left(s, now - c->last_s, idle - c->idle_s, ours - c->ours_s));
    else c->start_s = now;
    c->last_s = now;
    c->idle_s = idle;
    c->ours_s = ours;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median of the iterations: while the swarm waits for a lost peer, other processes use its
// cores. 0: out of memory.
static double cores_ours(const up_clock *c) {
    uint32_t count = c->seen - MEASURE_WARM_UP;
    double *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return 0;
    memcpy(sorted, c->cores, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    double median = sorted[count / 2];
    free(sorted);
    return median;
}

static void put_cores(FILE *file, const up_clock *c) {
    fputs("# Cores of each of these iterations:", file);
    for (uint32_t i = 0; i < c->seen - MEASURE_WARM_UP; i++) fprintf(file, " %.3f", c->cores[i]);
    fputs("\n", file);
}

// ---- the cost of a message

typedef struct loop_cost {
    double message_ns, byte_ns;
} loop_cost;

// Least squares fit of loop = messages * a + bytes * b over all peers: data peers receive many
// messages, relays many tensors.
static loop_cost loop_costs(const swarm *s) {
    double mm = 0, mb = 0, bb = 0, ml = 0, bl = 0;
    for (uint32_t i = 0; i < s->child_count; i++) {
        const node_figures *f = &s->children[i]->figures;
        if (!s->children[i]->measured) continue;
        double m = (double)f->messages, b = (double)f->payload_bytes, l = (double)f->loop_ns;
        mm += m * m;
        mb += m * b;
        bb += b * b;
        ml += m * l;
        bl += b * l;
    }
    double d = mm * bb - mb * mb;
    loop_cost cost = {.message_ns = d > 0 ? (ml * bb - bl * mb) / d : 0, .byte_ns = d > 0 ? (bl * mm - ml * mb) / d : 0};
    if (cost.message_ns < 0 || d <= 0) cost = (loop_cost){.byte_ns = bb > 0 ? bl / bb : 0};
    else if (cost.byte_ns < 0) cost = (loop_cost){.message_ns = mm > 0 ? ml / mm : 0};
    return cost;
}

// ---- the scenario

static void put_ms(FILE *file, const char *key, double ns) {
    if (ns > 0) fprintf(file, ", %s: %.4f", key, ns >= 1000 ? ns * 1e-6 : 0.001);
}

// A peer without work is assumed to resemble the others of its kind.
static double mean_ns(const swarm *s, const child *c, job_kind kind) {
    uint64_t jobs = c->figures.kind[kind].jobs, cpu_ns = c->figures.kind[kind].cpu_ns;
    for (uint32_t i = 0; c->figures.kind[kind].jobs == 0 && i < s->child_count; i++) {
        const child *other = s->children[i];
        if (!other->measured || (other->role == CHILD_RELAY) != (c->role == CHILD_RELAY)) continue;
        jobs += other->figures.kind[kind].jobs;
        cpu_ns += other->figures.kind[kind].cpu_ns;
    }
    return jobs > 0 ? (double)cpu_ns / (double)jobs : 0;
}

static double update_ns(const node_figures *f) {
    double all = 0;
    for (int kind = JOB_PACK; kind <= JOB_SUM_CLEAR; kind++) all += (double)f->kind[kind].cpu_ns;
    return all / (double)f->iterations;
}

static void put_peer(FILE *file, const swarm *s, const child *c, loop_cost cost) {
    const node_figures *f = &c->figures;
    // The leader is the first of the data peers by name.
    const char *name = c->role == CHILD_LEADER ? "data1" : c->name;
    fprintf(file, "- {name: %s, %s", name, c->role == CHILD_RELAY ? "" : "role: data, ");
    if (c->role == CHILD_RELAY) fprintf(file, "stage: %u, ", f->stage);
    fprintf(file, "machine: here, capacity: %u, threads: %llu", f->capacity, (unsigned long long)s->threads);
    put_ms(file, "forward_ms", mean_ns(s, c, JOB_FORWARD));
    if (c->role != CHILD_RELAY) put_ms(file, "loss_ms", mean_ns(s, c, JOB_LOSS));
    put_ms(file, "backward_ms", mean_ns(s, c, JOB_BACKWARD));
    put_ms(file, "weight_ms", mean_ns(s, c, JOB_WEIGHT));
    put_ms(file, "update_ms", update_ns(f));
    put_ms(file, "message_ms", cost.message_ns);
    put_ms(file, "megabyte_ms", cost.byte_ns * 1e6);
    fputs("}\n", file);
}

static uint32_t measured(const swarm *s) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->child_count; i++) count += s->children[i]->measured;
    return count;
}

// Symbolic links are not resolved: paths in the description are relative to the name given.
static bool path_whole(const char *path, char out[PATH_MAX]) {
    char here[PATH_MAX] = "";
    bool relative = path[0] != '/';
    if (relative && !getcwd(here, sizeof here)) return false;
    return snprintf(out, PATH_MAX, "%s%s%s", here, relative ? "/" : "", path) < PATH_MAX;
}

braid_err measure_write(const swarm *s, braid_error *error) {
    char run[PATH_MAX];
    if (measured(s) == 0 || s->clock.seen <= MEASURE_WARM_UP || s->clock.room == 0)
        return braid_fail(error, BRAID_STATE, "nothing was measured for %s: the run needs more than %d iterations", s->measure, MEASURE_WARM_UP);
    double cores = cores_ours(&s->clock);
    if (cores <= 0) return braid_fail(error, BRAID_MEMORY, "no memory to write %s", s->measure);
    if (!path_whole(s->run_path, run)) return braid_fail(error, BRAID_IO, "cannot find %s again: %s", s->run_path, strerror(errno));
    FILE *file = fopen(s->measure, "w");
    if (!file) return braid_fail(error, BRAID_IO, "cannot write %s: %s", s->measure, strerror(errno));
    const up_clock *c = &s->clock;
    uint64_t iterations = s->iteration - s->first, counted = c->seen - MEASURE_WARM_UP;
    loop_cost cost = loop_costs(s);
    fprintf(file, "# Measured by braid up: %llu iterations of %.4f s each, %.2f cores for %u processes. Processor times; see docs/results/truth.md.\n",
            (unsigned long long)counted, (c->last_s - c->start_s) / (double)counted, cores, s->child_count);
    put_cores(file, c);
    fprintf(file, "model: {run: %s}\niterations: %llu\nmachines: [{name: here, cores: %.3f}]\npeers:\n", run, (unsigned long long)iterations, cores);
    for (uint32_t i = 0; i < s->child_count; i++)
        if (s->children[i]->measured) put_peer(file, s, s->children[i], cost);
    bool bad = ferror(file) != 0;
    bad = fclose(file) != 0 || bad;
    return bad ? braid_fail(error, BRAID_IO, "cannot write %s: %s", s->measure, strerror(errno)) : BRAID_OK;
}
