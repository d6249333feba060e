// GWTF places of a peer, one for each unit of flow through it.
#include "routing/gwtf/gwtf.h"

uint32_t gwtf_used(const gwtf *g, bool home) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->places; i++) n += g->place[i].state != GWTF_FREE && g->place[i].home == home;
    return n;
}

uint32_t gwtf_room(const gwtf *g, bool home) {
    uint32_t n = gwtf_used(g, home);
    return n < g->r.config.capacity ? g->r.config.capacity - n : 0;
}

int gwtf_take(gwtf *g, gwtf_state state, uint32_t k, bool home) {
    if (gwtf_room(g, home) == 0) return -1;
    for (uint32_t i = 0; i < g->places; i++) {
        gwtf_place *p = &g->place[i];
        if (p->state != GWTF_FREE) continue;
        *p = (gwtf_place){.state = state, .home = home, .k = (uint8_t)k, .turn = p->turn};
        return (int)i;
    }
    return -1;
}

// Turns of the place's next unit are above all turns still in messages.
void gwtf_free(gwtf_place *p) { *p = (gwtf_place){.turn = (p->turn | 0xffff) + 1}; }

bool gwtf_same_unit(const gwtf_place *p, uint32_t turn) { return p->state != GWTF_FREE && p->turn >> 16 == turn >> 16; }

gwtf_place *gwtf_find_next(gwtf *g, router_peer next, uint32_t next_place, uint32_t turn) {
    for (uint32_t i = 0; i < g->places; i++) {
        gwtf_place *p = &g->place[i];
        if (p->state != GWTF_FREE && p->next == next && p->next_place == next_place && p->next_turn == turn) return p;
    }
    return NULL;
}

router_outgoing *gwtf_relink(gwtf *g, router_peer to, uint8_t why, uint32_t at, uint32_t turn) {
    router_outgoing *o = router_post(&g->r, to, ROUTER_RELINK);
    o->why = why;
    o->position = (uint16_t)at;
    o->units = 0;
    o->turn = turn;
    return o;
}

// Takes a broken unit apart in both directions, to the source and to the sink.
void gwtf_dissolve(gwtf *g, gwtf_place *p) {
    if (p->state == GWTF_FREE) return;
    p->doomed = true;
    if (p->locked || p->state == GWTF_ASKING || p->state == GWTF_TAKING) return;
    if (p->previous != 0) gwtf_relink(g, p->previous, GWTF_BROKEN_UP, (uint32_t)(p - g->place), p->turn);
    if (p->next != 0) gwtf_relink(g, p->next, GWTF_BROKEN_DOWN, p->next_place, p->next_turn);
    gwtf_free(p);
}

int64_t gwtf_cost(const gwtf *g, router_side side, router_peer peer) {
    int slot = router_slot(&g->r, side, peer);
    return slot < 0 ? -1 : g->r.slot[side][slot].cost;
}

bool gwtf_movable(const gwtf_place *p) {
    return p->state == GWTF_HELD && !p->home && !p->locked && !p->doomed && p->next != 0;
}
