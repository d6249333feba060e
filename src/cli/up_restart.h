// When processes that died are started again, and when no more. Pure: time is passed in.
#ifndef BRAID_CLI_UP_RESTART_H
#define BRAID_CLI_UP_RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RESTART_FIRST_MS = 1000,     // before the first restart; each further one in a row waits twice as long,
    RESTART_MOST_MS = 8000,      // up to this
    RESTART_HEALTHY_MS = 30000,  // a process that lived so long, and worked, begins the count again
    RESTART_MOST = 5,            // losses in a row: 1 + 2 + 4 + 8 s of waiting
};

// Deaths of processes that do one piece of work: the relays of a stage, or the data peer with one text.
typedef struct restart_record {
    uint32_t losses;  // times that none of them was left for a death that counts, in a row
    uint32_t deaths;  // of processes since the count began
    uint32_t deaths_known;  // ... when none was left the last time
    uint64_t first_ms, last_ms;
} restart_record;

// A death that was not asked for. `worked`: the run came further while that process lived than it had ever been.
void restart_note_death(restart_record *r, uint64_t now_ms, uint64_t lived_ms, bool worked);
// None is left. Returns how long to wait before others are started.
uint64_t restart_note_loss(restart_record *r);
bool restart_is_hopeless(const restart_record *r);

#endif
