// The prefix caches of nodes.
#include "sim/session/inside.h"

#include <string.h>

uint32_t pages_keys(const uint64_t *tokens, uint32_t count, session_key *keys) {
    uint64_t chain = 0x9a6e5;
    uint32_t pages = 0;
    for (uint32_t n = 0; n < count; n++) {
        chain = rng_seed(chain, tokens[n]);
        if ((n + 1) % WORLD_PAGE > 0) continue;
        keys[pages] = (session_key){{0}};
        memcpy(keys[pages++].bytes, &chain, sizeof chain);
    }
    return pages;
}

static world_page *find(world_node *n, const session_key *key, uint16_t begin, uint16_t end) {
    for (uint32_t i = 0; i < WORLD_PAGES; i++) {
        world_page *p = &n->page[i];
        if (p->used && p->begin == begin && p->end == end && memcmp(&p->key, key, sizeof *key) == 0) return p;
    }
    return NULL;
}

// A page takes the place of any other one.
void pages_name(world *w, uint32_t node, const session_effect *e) {
    world_node *n = &w->node[node];
    const world_slot *s = &n->slot[e->slot];
    if (!s->used) return;
    if (s->begin != e->layer_begin || s->end != e->layer_end || e->limit > s->length) {
        world_fail(w, "n%u names %u tokens of slot %u, which has %u", node, e->limit, e->slot, s->length);
        return;
    }
    for (uint32_t k = 0; k < e->count; k++) {
        uint32_t at = (e->position + k) * WORLD_PAGE;
        if (at + WORLD_PAGE > e->limit || find(n, &e->keys[k], s->begin, s->end)) continue;
        world_page *page = &n->page[rng_below(&w->random, WORLD_PAGES)];
        *page = (world_page){.used = true, .key = e->keys[k], .begin = s->begin, .end = s->end};
        for (uint32_t l = s->begin; l < s->end; l++) memcpy(page->chain[l], &s->chain[l][at], sizeof page->chain[l]);
    }
}

uint32_t pages_adopt(world *w, uint32_t node, const world_item *item) {
    world_node *n = &w->node[node];
    world_slot *s = &n->slot[item->slot];
    uint32_t pages = 0;
    for (; pages < item->job.count && (pages + 1) * WORLD_PAGE <= item->job.limit; pages++) {
        const world_page *page = find(n, &item->key[pages], s->begin, s->end);
        if (!page) break;
        for (uint32_t l = s->begin; l < s->end; l++)
            memcpy(&s->chain[l][pages * WORLD_PAGE], page->chain[l], sizeof page->chain[l]);
    }
    s->length = s->kept_from = s->kept_to = pages * WORLD_PAGE;
    w->result->adopted += s->length;
    return s->length;
}
