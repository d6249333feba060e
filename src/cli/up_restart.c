#include "cli/up_restart.h"

void restart_note_death(restart_record *r, uint64_t now_ms, uint64_t lived_ms, bool worked) {
    if (lived_ms >= RESTART_HEALTHY_MS && worked) *r = (restart_record){0};
    if (r->deaths++ == 0) r->first_ms = now_ms - lived_ms;
    r->last_ms = now_ms;
}

uint64_t restart_note_loss(restart_record *r) {
    uint64_t delay = RESTART_FIRST_MS;
    r->losses += r->deaths > r->deaths_known;
    r->deaths_known = r->deaths;
    for (uint32_t i = 1; i < r->losses && delay < RESTART_MOST_MS; i++) delay *= 2;
    return delay;
}

bool restart_is_hopeless(const restart_record *r) { return r->losses >= RESTART_MOST; }
