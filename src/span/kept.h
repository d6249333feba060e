// Outputs of one session's layers by position, which are the input of the next span.
#ifndef BRAID_SPAN_KEPT_H
#define BRAID_SPAN_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Rows of positions [from, end).
typedef struct kept {
    float *rows;
    uint32_t from, end;
    uint32_t unused, room;  // rows before `from`, and in all
} kept;

// Stores x[count, dim] at `position`; rows from there on are replaced. Rows that would not touch
// those of before replace all of them. False: no memory.
bool kept_put(kept *k, size_t dim, uint32_t position, uint32_t count, const float *x);
void kept_forget(kept *k, uint32_t before);
// NULL unless all of the rows are there.
const float *kept_at(const kept *k, size_t dim, uint32_t position, uint32_t count);
void kept_free(kept *k);

#endif
