// GWTF Request Change and Request Redirect: how two peers of a stage carry one out.
#include "routing/gwtf/gwtf.h"

router_outgoing *gwtf_answer(gwtf *g, const router_message *m, uint8_t why) {
    router_outgoing *o = router_post(&g->r, m->from, ROUTER_ANSWER);
    o->why = why;
    o->position = m->position;
    return o;
}

static void link_on(gwtf *g, gwtf_place *p, router_peer next, uint32_t next_place, uint32_t turn, int64_t tail) {
    p->next = next;
    p->next_place = next_place;
    p->next_turn = turn;
    p->cost = tail + gwtf_cost(g, ROUTER_NEXT, next);
    gwtf_relink(g, next, GWTF_UPSTREAM_IS, next_place, turn);
}

// The link from here to p's next place belongs to another peer now.
static void give_link(gwtf *g, const gwtf_place *p, router_peer owner) {
    if (p->next == 0) return;
    gwtf_relink(g, p->next, GWTF_UPSTREAM_IS, p->next_place, p->next_turn + 1)->token.origin = owner;
}

static gwtf_place *asked_place(gwtf *g, const router_message *m, uint32_t k) {
    if (m->units >= g->places) return NULL;
    gwtf_place *p = &g->place[m->units];
    return gwtf_movable(p) && p->k == k && p->next == m->token.origin ? p : NULL;
}

// Two peers that request the same change of each other at once: the one with the lower number wins.
static gwtf_place *asked_change(gwtf *g, const router_message *m, uint32_t k) {
    if (m->units >= g->places) return NULL;
    gwtf_place *p = &g->place[m->units];
    bool crossed = p->state == GWTF_HELD && p->locked && !p->giving && p->other == m->from &&
                   p->other_place == m->position && m->from < g->r.config.self;
    p->locked &= !crossed;
    p = asked_place(g, m, k);
    g->place[m->units].locked |= crossed;
    return p;
}

// The requester wants the next peer b of a unit here for its own unit and offers its next peer a.
// Validated against the present state.
void gwtf_on_request_change(gwtf *g, const router_message *m, uint32_t k) {
    gwtf_place *p = asked_change(g, m, k);
    router_peer a = m->u.word[0];
    int64_t to_a = gwtf_cost(g, ROUTER_NEXT, a);
    if (p == NULL || to_a < 0 || a == p->next) {
        gwtf_answer(g, m, GWTF_REFUSED);
        return;
    }
    int64_t to_b = gwtf_cost(g, ROUTER_NEXT, p->next);
    int64_t gain = gwtf_gain(g, (int64_t)m->u.word[4], to_a, (int64_t)m->u.word[3], to_b);
    if (gain > m->cost) {
        gwtf_answer(g, m, GWTF_REFUSED);
        return;
    }
    router_outgoing *o = gwtf_answer(g, m, GWTF_CHANGE);
    o->token.origin = p->next;
    o->units = p->next_place;
    o->turn = p->next_turn;
    o->cost = p->cost - to_b;
    give_link(g, p, m->from);
    link_on(g, p, a, m->u.word[1], m->u.word[2] + 1, m->u.word[5]);
}

// The requester wants this peer's place in a unit. The previous peer owns the link and decides.
void gwtf_on_request_redirect(gwtf *g, const router_message *m, uint32_t k) {
    gwtf_place *p = asked_place(g, m, k);
    if (p == NULL || p->previous == 0 || p->previous != m->token.serial) {
        gwtf_answer(g, m, GWTF_REFUSED);
        return;
    }
    p->locked = p->giving = true;
    p->other = m->from;
    p->other_place = m->position;
    p->other_turn = m->turn;
    p->asked = p->previous;
    router_outgoing *o = gwtf_relink(g, p->previous, GWTF_ASK, (uint32_t)(p - g->place), p->turn);
    o->token = (router_token){m->from, m->position};
    o->units = 0;
    o->extra = m->turn;
}

void gwtf_unlock(gwtf *g, gwtf_place *p) {
    p->locked = p->giving = false;
    p->other = p->asked = 0;
    if (p->doomed) gwtf_dissolve(g, p);
}

void gwtf_refuse_redirect(gwtf *g, gwtf_place *p) {
    router_outgoing *o = router_post(&g->r, p->other, ROUTER_ANSWER);
    o->why = GWTF_REFUSED;
    o->position = (uint16_t)p->other_place;
    gwtf_unlock(g, p);
}

void gwtf_on_ask(gwtf *g, const router_message *m, int next) {
    gwtf_place *p = gwtf_find_next(g, m->from, m->position, m->turn);
    bool yes = next >= 0 && p != NULL && !p->locked && !p->doomed && p->state == GWTF_HELD &&
               router_slot(&g->r, ROUTER_NEXT, m->token.origin) >= 0;
    gwtf_relink(g, m->from, yes ? GWTF_ASK_YES : GWTF_ASK_NO, m->position, m->turn);
    if (!yes) return;
    p->next = m->token.origin;
    p->next_place = m->token.serial;
    p->next_turn = m->u.word[0];
    gwtf_relink(g, p->next, GWTF_UPSTREAM_IS, p->next_place, p->next_turn);
}

void gwtf_on_ask_answer(gwtf *g, const router_message *m, bool yes) {
    if (m->position >= g->places) return;
    gwtf_place *p = &g->place[m->position];
    if (!gwtf_same_unit(p, m->turn) || !p->giving || p->asked != m->from) return;
    if (!yes) {
        gwtf_refuse_redirect(g, p);
        return;
    }
    // the requester died: dissolve the unit in both directions
    if (router_slot(&g->r, ROUTER_SAME, p->other) < 0) {
        if (p->next != 0) gwtf_relink(g, p->next, GWTF_BROKEN_DOWN, p->next_place, p->next_turn);
    } else {
        router_outgoing *o = router_post(&g->r, p->other, ROUTER_ANSWER);
        o->why = GWTF_REDIRECT;
        o->position = (uint16_t)p->other_place;
        o->token = (router_token){p->next, m->from};
        o->units = p->next_place;
        o->turn = p->next_turn;
        o->cost = p->next == 0 ? 0 : p->cost - gwtf_cost(g, ROUTER_NEXT, p->next);
        give_link(g, p, p->other);
    }
    gwtf_free(p);
}

static bool take_previous(gwtf *g, gwtf_place *p, router_peer peer) {
    bool alive = router_slot(&g->r, ROUTER_PREVIOUS, peer) >= 0;
    p->previous = alive ? peer : 0;
    return alive;
}

void gwtf_on_answer(gwtf *g, const router_message *m) {
    if (m->position >= g->places) return;
    gwtf_place *p = &g->place[m->position];
    if (p->state == GWTF_FREE || p->other != m->from || p->giving) return;
    if (m->why == GWTF_REFUSED && (p->state == GWTF_ASKING || (p->state == GWTF_TAKING && p->previous == 0))) {
        bool early = g->r.now <= g->acted_at + GWTF_ITERATION / 2 * g->r.config.delay;
        g->again |= p->state == GWTF_ASKING && early;
        gwtf_free(p);
        return;
    }
    if (p->state == GWTF_ASKING) {
        gwtf_on_flow_answer(g, m, p);
        return;
    }
    p->doomed |= p->state == GWTF_TAKING && m->why == GWTF_REFUSED;
    p->state = GWTF_HELD;
    if (m->why != GWTF_REFUSED) {
        g->temperature *= g->r.config.cooling;
        if (m->why == GWTF_CHANGE) give_link(g, p, m->from);
        if (m->why == GWTF_REDIRECT && p->previous == 0) p->doomed = !take_previous(g, p, m->token.serial);
        if (router_slot(&g->r, ROUTER_NEXT, m->token.origin) >= 0) {
            link_on(g, p, m->token.origin, m->units, m->turn + 1, m->cost);
        } else {  // the next peer died meanwhile
            p->next = 0;
            p->doomed = true;
        }
    }
    gwtf_unlock(g, p);
}
