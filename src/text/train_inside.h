// Internal structures shared by training and writing.
#ifndef BRAID_TEXT_TRAIN_INSIDE_H
#define BRAID_TEXT_TRAIN_INSIDE_H

#include "text/inside.h"

enum { TRAIN_FIRST_BYTE = 1, TRAIN_FIRST_MERGE = 257, TRAIN_MAX_WORD_BYTES = 1 << 10 };

typedef struct train_pair {
    uint64_t pair, count;  // left id << 32 | right id
    buffer words;          // u32 each: those that have had it
    uint32_t heap_at;      // + 1; 0: not there
} train_pair;

typedef struct training {
    vocabulary words;   // ids count up
    buffer counts;      // u64 of each word
    uint32_t *symbols;  // of all words, where their bytes were
    uint32_t *lengths;
    train_pair *pairs;
    uint32_t pair_count, *pair_slots;
    uint64_t pair_mask;
    uint32_t *heap, heap_count, heap_capacity;  // of pairs
    buffer merged;                              // u64 pairs
    uint32_t merges;
    uint64_t bytes;
    uint8_t order[256], bytes_in_order[256];
} training;

braid_err train_write(const training *t, const char *directory, braid_error *error);

#endif
