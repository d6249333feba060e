// GWTF links between places: changes of the owner, and broken links.
#include "routing/gwtf/gwtf.h"

enum { CHECK_AFTER = 30 };  // time in delays until a new upstream peer is asked

// Both the new and the old owner of the incoming link report the change, because either may die
// before its message arrives.
static void on_upstream_is(gwtf *g, const router_message *m) {
    if (m->position >= g->places) return;
    gwtf_place *p = &g->place[m->position];
    router_peer owner = m->token.origin != 0 ? m->token.origin : m->from;
    if (!gwtf_same_unit(p, m->turn)) {
        if (owner == m->from) gwtf_relink(g, m->from, GWTF_BROKEN_UP, m->position, m->turn);
        return;
    }
    // that owner has given the link away since, and the newer report was faster or is on its way
    if (m->turn < p->turn) return;
    bool alive = router_slot(&g->r, ROUTER_PREVIOUS, owner) >= 0;
    p->turn = m->turn;
    p->previous = alive ? owner : 0;
    if (p->doomed || !alive) gwtf_dissolve(g, p);
}

// An answer under way may give this peer a link that it does not know yet.
static bool waits_for_answer(const gwtf *g) {
    for (uint32_t i = 0; i < g->places; i++) {
        const gwtf_place *p = &g->place[i];
        if (p->state == GWTF_ASKING || p->state == GWTF_TAKING || (p->locked && !p->giving)) return true;
    }
    return false;
}

void gwtf_on_relink(gwtf *g, const router_message *m, int next) {
    if (m->why == GWTF_ASK) gwtf_on_ask(g, m, next);
    if (m->why == GWTF_CHECK && gwtf_find_next(g, m->from, m->position, m->turn) == NULL)
        gwtf_relink(g, m->from, waits_for_answer(g) ? GWTF_CHECK_LATER : GWTF_BROKEN_DOWN, m->position, m->turn);
    if (m->why == GWTF_CHECK_LATER && m->position < g->places)
        g->place[m->position].check_at = g->r.now + CHECK_AFTER * g->r.config.delay;
    if (m->why == GWTF_ASK_YES || m->why == GWTF_ASK_NO) gwtf_on_ask_answer(g, m, m->why == GWTF_ASK_YES);
    if (m->why == GWTF_UPSTREAM_IS) on_upstream_is(g, m);
    if (m->why == GWTF_BROKEN_UP) {
        gwtf_place *p = gwtf_find_next(g, m->from, m->position, m->turn);
        if (p == NULL) return;
        p->next = 0;
        gwtf_dissolve(g, p);
    }
    if (m->why == GWTF_BROKEN_DOWN && m->position < g->places) {
        gwtf_place *p = &g->place[m->position];
        if (!gwtf_same_unit(p, m->turn) || m->turn < p->turn) return;
        p->previous = 0;
        gwtf_dissolve(g, p);
    }
}

void gwtf_place_lost(gwtf *g, gwtf_place *p, router_peer peer) {
    bool broken = p->previous == peer || p->next == peer;
    if (p->giving && p->asked == peer) gwtf_refuse_redirect(g, p);
    if (p->previous == peer) p->previous = 0;
    if (p->next == peer) p->next = 0;
    if (p->other == peer && !p->giving) {
        if (p->state == GWTF_ASKING || p->state == GWTF_TAKING) {
            bool linked = p->previous != 0;
            p->state = GWTF_HELD;
            p->doomed = true;
            if (!linked) {
                gwtf_free(p);
                return;
            }
        }
        p->doomed = true;  // whether the other peer made the change is unknown
        gwtf_unlock(g, p);
        return;
    }
    if (broken) gwtf_dissolve(g, p);
}

// A report of a new owner may be lost with its sender. So some time after a place got another
// upstream peer, that peer is asked once. A peer that does not know the link answers that it is
// broken.
void gwtf_check_places(gwtf *g) {
    for (uint32_t i = 0; i < g->places; i++) {
        gwtf_place *p = &g->place[i];
        if (p->state != GWTF_HELD || p->previous == 0) continue;
        if (p->seen_turn != p->turn || p->seen_previous != p->previous) {
            p->seen_turn = p->turn;
            p->seen_previous = p->previous;
            p->check_at = g->r.now + CHECK_AFTER * g->r.config.delay;
        }
        if (g->r.now >= p->check_at) {
            gwtf_relink(g, p->previous, GWTF_CHECK, i, p->turn);
            p->check_at = ROUTER_NEVER;
        }
        router_want(&g->r, p->check_at);
    }
}
