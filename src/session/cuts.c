// Truncations of a session's text. Each has a number; the origin counts them.
#include "session/inside.h"

#include <string.h>

void cuts_add(session_cuts *c, uint32_t cut, uint32_t at) {
    // an older truncation further back is covered by this one
    while (c->count > 0 && c->entry[c->count - 1].at >= at) c->count--;
    if (c->count == SESSION_CUTS) {
        c->known_from = c->entry[0].cut;
        memmove(c->entry, c->entry + 1, (SESSION_CUTS - 1) * sizeof c->entry[0]);
        c->count--;
    }
    c->entry[c->count].cut = cut;
    c->entry[c->count++].at = at;
    c->now = cut;
}

uint32_t cuts_valid(const session_cuts *c, uint32_t since) {
    if (since < c->known_from) return 0;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->entry[i].cut > since) return c->entry[i].at;
    }
    return UINT32_MAX;
}
