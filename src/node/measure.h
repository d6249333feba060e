// What a process measures of itself, for whoever wants to simulate it: the processor time of its jobs, and of its loop per
// message and byte. Counted once the first iterations, which are slower, are over.
#ifndef BRAID_NODE_MEASURE_H
#define BRAID_NODE_MEASURE_H

#include "protocol/job.h"

#include <stdbool.h>
#include <stdint.h>

enum { MEASURE_WARM_UP = 5 };  // iterations: where others use the machine, too, they took up to twice the processor time of later ones

typedef struct node_figures {
    uint16_t stage;
    uint32_t capacity;
    uint64_t iterations;     // that the rest is of
    struct {
        uint64_t jobs, cpu_ns;
    } kind[JOB_KINDS];
    uint64_t messages;       // that arrived
    uint64_t payload_bytes;  // that arrived or left
    uint64_t loop_ns;        // processor time of the loop's thread
    uint64_t process_ns;     // and of the whole process
    uint64_t wall_ns;
} node_figures;

typedef struct measure {
    node_figures figures;
    uint64_t job_ns;         // of the job under way; the compute thread's until the job is done
    uint64_t loop_start_ns, process_start_ns, wall_start_ns;
    uint32_t seen;           // iterations in all
} measure;

void measure_job(measure *m, const job *work);
void measure_message(measure *m, uint64_t payload_bytes);
void measure_sent(measure *m, uint64_t payload_bytes);
// An iteration is over. False: these were still the first ones, `figures` says nothing yet. On the loop's thread.
bool measure_iteration(measure *m);

#endif
