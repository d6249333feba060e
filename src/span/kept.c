#include "span/kept.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_ROOM = 64 };

void kept_free(kept *k) {
    free(k->rows);
    *k = (kept){0};
}

static void kept_clear(kept *k, uint32_t position) {
    k->from = k->end = position;
    k->unused = 0;
}

static bool reach(kept *k, size_t dim, uint32_t rows) {
    uint32_t held = k->end - k->from;
    if (rows <= k->room - k->unused) return true;
    if (k->unused > 0) memmove(k->rows, k->rows + k->unused * dim, held * dim * sizeof *k->rows);
    k->unused = 0;
    if (rows <= k->room) return true;
    size_t room = LEAST_ROOM;
    while (room < rows) room *= 2;
    float *more = room * dim <= SIZE_MAX / sizeof *more ? realloc(k->rows, room * dim * sizeof *more) : NULL;
    if (!more) return false;
    k->rows = more;
    k->room = (uint32_t)room;
    return true;
}

bool kept_put(kept *k, size_t dim, uint32_t position, uint32_t count, const float *x) {
    if (position < k->from || position > k->end) kept_clear(k, position);
    k->end = position;
    uint32_t held = position - k->from;
    if (!reach(k, dim, held + count)) return false;
    memcpy(k->rows + (k->unused + held) * dim, x, count * dim * sizeof *x);
    k->end = position + count;
    return true;
}

void kept_forget(kept *k, uint32_t before) {
    if (before >= k->end) {
        kept_clear(k, k->end);
        return;
    }
    if (before <= k->from) return;
    k->unused += before - k->from;
    k->from = before;
}

const float *kept_at(const kept *k, size_t dim, uint32_t position, uint32_t count) {
    if (position < k->from || position > k->end || count > k->end - position) return NULL;
    return k->rows + (k->unused + position - k->from) * dim;
}
