// gwtf: links between places: who owns them now, and what breaks.
#include "routing/gwtf/gwtf.h"

enum { CHECK_AFTER = 30 };  // delays

// The new owner of the link to me says so, and the old one too: either may die before its word arrives.
static void on_upstream_is(gwtf *g, const router_message *m) {
    if (m->position >= g->places) return;
    gwtf_place *p = &g->place[m->position];
    router_peer owner = m->token.origin != 0 ? m->token.origin : m->from;
    if (!gwtf_same_unit(p, m->taken_back)) {
        if (owner == m->from) gwtf_relink(g, m->from, GWTF_BROKEN_UP, m->position, m->taken_back);
        return;
    }
    if (m->taken_back < p->turn) return;  // it gave the link away since: that news was faster, or is on its way to it
    bool alive = router_slot(&g->r, ROUTER_PREVIOUS, owner) >= 0;
    p->turn = m->taken_back;
    p->previous = alive ? owner : 0;
    if (p->doomed || !alive) gwtf_dissolve(g, p);
}

// An answer under way may make a link mine of which I know nothing yet.
static bool waits_for_answer(const gwtf *g) {
    for (uint32_t i = 0; i < g->places; i++) {
        const gwtf_place *p = &g->place[i];
        if (p->state == GWTF_ASKING || p->state == GWTF_TAKING || (p->locked && !p->giving)) return true;
    }
    return false;
}

void gwtf_on_relink(gwtf *g, const router_message *m, int next) {
    if (m->why == GWTF_ASK) gwtf_on_ask(g, m, next);
    if (m->why == GWTF_CHECK && gwtf_find_next(g, m->from, m->position, m->taken_back) == NULL)
        gwtf_relink(g, m->from, waits_for_answer(g) ? GWTF_CHECK_LATER : GWTF_BROKEN_DOWN, m->position, m->taken_back);
    if (m->why == GWTF_CHECK_LATER && m->position < g->places)
        g->place[m->position].check_at = g->r.now + CHECK_AFTER * g->r.config.delay;
    if (m->why == GWTF_ASK_YES || m->why == GWTF_ASK_NO) gwtf_on_ask_answer(g, m, m->why == GWTF_ASK_YES);
    if (m->why == GWTF_UPSTREAM_IS) on_upstream_is(g, m);
    if (m->why == GWTF_BROKEN_UP) {
        gwtf_place *p = gwtf_find_next(g, m->from, m->position, m->taken_back);
        if (p == NULL) return;
        p->next = 0;
        gwtf_dissolve(g, p);
    }
    if (m->why == GWTF_BROKEN_DOWN && m->position < g->places) {
        gwtf_place *p = &g->place[m->position];
        if (!gwtf_same_unit(p, m->taken_back) || m->taken_back < p->turn) return;
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
        p->doomed = true;  // whether it made the change, nobody can say
        gwtf_unlock(g, p);
        return;
    }
    if (broken) gwtf_dissolve(g, p);
}

// News of a link's new owner may die with who should have told it. So some time after a place got another upstream peer,
// that peer is asked once whether the link is its own; who knows nothing of it answers that it is broken.
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
