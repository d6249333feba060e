#include "cli/allowance.h"

#include "format/quantity.h"
#include "node/plan.h"

#include <math.h>
#include <stdio.h>

uint64_t allowance_threads(const machine *m) { return m->processors < ALLOWANCE_MOST_THREADS ? m->processors : ALLOWANCE_MOST_THREADS; }

void allowance_tell(report *r, const machine *m, uint64_t max_memory) {
    report_event news = {.kind = REPORT_MACHINE, .loss = NAN, .processors = m->processors, .present = m->present};
    char may_use[MACHINE_TEXT], cap[QUANTITY_TEXT];
    machine_describe(m, may_use);
    // 0 in the events stands for no known limit
    news.memory = m->memory_bytes == UINT64_MAX ? 0 : m->memory_bytes;
    news.files = m->files == UINT64_MAX ? 0 : m->files;
    if (max_memory) snprintf(news.text, sizeof news.text, "this process may use %s; the run gets at most %s (--max-memory or swarm.max_memory)", may_use, quantity_size_text(max_memory, cap));
    else snprintf(news.text, sizeof news.text, "this process may use %s; without --max-memory all of the memory is assumed to be free", may_use);
    report_tell(r, &news);
}

braid_err allowance_files(const machine *m, unsigned more, braid_error *error) {
    uint64_t needed = machine_files_open() + (uint64_t)more;
    if (needed <= m->files) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "this process needs at least %llu open files, and %llu are allowed; raise the limit (ulimit -n)", (unsigned long long)needed,
                      (unsigned long long)m->files);
}

static uint64_t stage_bytes(const run_config *run, uint32_t number, uint32_t capacity) {
    worker_config config;
    plan_stage_worker(run, number, capacity, &config);
    return worker_memory_bytes(&config);
}

// Distributes the relays evenly over the stages.
static uint64_t swarm_bytes(const run_config *run, uint64_t data_peers, uint64_t relays, uint64_t capacity, uint64_t max_memory) {
    uint64_t total = 0;
    uint32_t held;
    for (uint32_t s = 0; s < run->stages; s++) {
        if (plan_capacity(run, (uint32_t)capacity, max_memory, s == 0, false, &held, NULL)) return 0;  // the process itself reports the reason
        uint64_t peers = s == 0 ? data_peers : relays / (run->stages - 1) + (s - 1 < relays % (run->stages - 1));
        total += peers * stage_bytes(run, s, held);
    }
    return total;
}

bool allowance_swarm_exceeds(const machine *m, const run_config *run, uint64_t data_peers, uint64_t relays, uint64_t capacity, uint64_t max_memory, char *text, size_t room) {
    uint64_t needed = swarm_bytes(run, data_peers, relays, capacity, max_memory);
    char need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    if (needed <= m->memory_bytes) return false;
    snprintf(text, room, "the %llu processes of this run need about %s together, and %s may be used: the kernel may kill some for lack of memory; lower swarm.capacity, or start fewer relays",
             (unsigned long long)(data_peers + relays), quantity_size_text(needed, need), quantity_size_text(m->memory_bytes, have));
    return true;
}
