// The paths of ended sessions by their first page: the prefix caches of their spans may have it.
#include "session/inside.h"

#include <string.h>

static warm_path *find_warm(session_peer *p, const session_key *first) {
    for (uint32_t k = 0; k < WARM; k++)
        if (p->warm[k].path.count > 0 && memcmp(&p->warm[k].first, first, sizeof *first) == 0) return &p->warm[k];
    return NULL;
}

void prefix_note_path(session_peer *p, const own *o) {
    if (o->open.key_count == 0 || o->path.count == 0 || o->waiting) return;
    warm_path *w = find_warm(p, &o->key[0]);
    if (!w) w = &p->warm[p->warm_next++ % WARM];
    w->first = o->key[0];
    w->path = o->path;
}

const session_path *prefix_warm_path(session_peer *p, const own *o) {
    if (o->open.key_count == 0 || o->length > 0) return NULL;
    const warm_path *w = find_warm(p, &o->key[0]);
    return w ? &w->path : NULL;
}
