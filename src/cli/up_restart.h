// When dead processes are restarted, and when no longer. Pure: time is passed in.
#ifndef BRAID_CLI_UP_RESTART_H
#define BRAID_CLI_UP_RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RESTART_FIRST_MS = 1000,     // before the first restart; each further one in a row waits twice as long,
    RESTART_MOST_MS = 8000,      // up to this limit
    RESTART_HEALTHY_MS = 30000,  // a process that lived this long, and worked, resets the count
    RESTART_MOST = 5,            // losses in a row: 1 + 2 + 4 + 8 s of waiting
};

// Deaths of processes with the same task: the relays of a stage, or the data peer with one text.
typedef struct restart_record {
    uint32_t losses;  // how often in a row the last of them died
    uint32_t deaths;  // deaths of processes since the count was reset
    uint32_t deaths_known;  // ... at the previous loss of the last one
    uint64_t first_ms, last_ms;
} restart_record;

// Counts an unplanned death. `worked`: the run made progress beyond its furthest point while that
// process lived.
void restart_note_death(restart_record *r, uint64_t now_ms, uint64_t lived_ms, bool worked);
// Counts the loss of the last one. Returns the pause before replacements are started.
uint64_t restart_note_loss(restart_record *r);
bool restart_is_hopeless(const restart_record *r);

#endif
