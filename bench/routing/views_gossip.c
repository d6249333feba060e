// The gossip of a swarm under a virtual clock: every message takes one round, and all peers begin
// at once with a few contacts from discovery. The result are the links that both ends agree on.
#include "bench/routing/views.h"

#include "base/rng.h"
#include "sim/queue.h"

#include <stdlib.h>
#include <string.h>

enum {
    // random contacts of each neighbouring stage and of the own one: the answer of a lookup in
    // discovery
    FIRST_CONTACTS = 4,
    PERIOD = 4 * ROUTING_ROUND,
    TIMEOUT = 3 * ROUTING_ROUND,
    SETTLED = 64,  // periods without a change of links: the views are complete
};

typedef struct gossip {
    const views_swarm *swarm;
    views_gossip *out;
    braid_error *error;
    view **view;
    int64_t *armed;   // the next tick of each peer
    sim_queue queue;  // sorted by time * 2; + 1 for ticks
    rng random;
    int64_t now;
    bool failed;
} gossip;

static void fold(gossip *g, uint64_t value) { g->out->hash = rng_mix(g->out->hash ^ value) + 0x9e3779b97f4a7c15u; }

static void fold_message(gossip *g, const view_message *m) {
    fold(g, (uint64_t)g->now);
    fold(g, (uint64_t)m->from << 32 | m->to);
    fold(g, (uint64_t)m->kind << 32 | (uint64_t)m->side << 24 | (uint64_t)m->by_chance << 16 |
                (uint64_t)m->linked << 8 | m->length);
    fold(g, (uint64_t)m->cost);
    for (int i = 0; i < VIEW_AXES; i++) fold(g, (uint32_t)m->card.place.at[i]);
    for (uint16_t i = 0; i < m->length; i++) fold(g, (uint64_t)m->cards[i].peer << 16 | m->cards[i].age);
}

static void out_of_memory(gossip *g) {
    if (!g->failed) braid_fail(g->error, BRAID_MEMORY, "no memory for the gossip of %u peers", g->swarm->peers);
    g->failed = true;
}

static uint32_t stage_at(const views_swarm *s, uint32_t stage, int step) {
    uint32_t ring = s->settings.stages + 1;
    return (stage + ring + (uint32_t)(step + (int)ring)) % ring;
}

static void introduce(gossip *g, uint32_t i, int step) {
    const views_swarm *s = g->swarm;
    uint32_t stage = stage_at(s, s->peer[i].stage, step), first = s->first[stage], count = s->first[stage + 1] - first;
    uint32_t some = stage == 0 || count < FIRST_CONTACTS ? count : FIRST_CONTACTS;
    if (s->peer[i].stage == 0) return;  // relays find the data peers
    for (uint32_t n = 0; n < some; n++) {
        uint32_t other = first + (some == count ? n : (uint32_t)rng_below(&g->random, count));
        if (other != i) view_contact(g->view[i], 0, other + 1, (uint16_t)stage);
    }
}

static view_config configure(const views_swarm *s, uint32_t i) {
    const views_settings *t = &s->settings;
    uint32_t before = t->stages, behind = t->stages > 1 ? 1 : before, wide = 1;
    for (uint32_t stage = 1; stage <= before; stage += behind == before ? 1 : before - 1)
        if (s->first[stage + 1] - s->first[stage] > wide) wide = s->first[stage + 1] - s->first[stage];
    return (view_config){.self = i + 1,
                         .stage = (uint16_t)s->peer[i].stage,
                         .stages = (uint16_t)t->stages,
                         .links = s->peer[i].stage == 0 ? wide : t->links,
                         .close = s->peer[i].stage == 0 ? 0 : t->close,
                         .probes = t->probes,
                         .period = PERIOD,
                         .patience = TIMEOUT,
                         .seed = rng_seed(rng_seed(t->seed, 3), i)};
}

static void open_views(gossip *g) {
    const views_swarm *s = g->swarm;
    g->view = calloc(s->peers, sizeof(view *));
    g->armed = calloc(s->peers, sizeof *g->armed);
    if (g->view == NULL || g->armed == NULL) {
        out_of_memory(g);
        return;
    }
    for (uint32_t i = 0; i < s->peers; i++) {
        view_config c = configure(s, i);
        size_t bytes = view_bytes(&c);
        void *memory = bytes > 0 ? malloc(bytes) : NULL;
        if (memory == NULL) {
            out_of_memory(g);
            return;
        }
        g->view[i] = view_init(memory, &c, 0);
    }
    for (uint32_t i = 0; i < s->peers; i++)
        for (int step = -1; step <= 1; step++) introduce(g, i, step);
}

// --- events

static void post(gossip *g, const view_message *m) {
    view_message *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        out_of_memory(g);
        return;
    }
    *copy = *m;
    g->out->messages++;
    g->out->bytes += view_message_bytes(m);
    g->out->by_kind[m->kind]++;
    if (m->card.stage == 0) g->out->source_messages++;
    if (g->swarm->settings.loss > 0 && rng_unit(&g->random) < g->swarm->settings.loss)
        free(copy);
    else
        sim_queue_put(&g->queue, (uint64_t)(g->now + ROUTING_ROUND) * 2, copy);
}

static void collect(gossip *g, uint32_t i) {
    view_message m;
    view_change change;
    while (!g->failed && view_next(g->view[i], &m)) post(g, &m);
    while (view_changed(g->view[i], &change)) {
        g->out->changes++;
        g->out->last_change = g->now / ROUTING_ROUND;
    }
    int64_t at = view_deadline(g->view[i]);
    if (at == g->armed[i]) return;
    g->armed[i] = at;
    sim_queue_put(&g->queue, (uint64_t)at * 2 + 1, &g->armed[i]);
}

static void take_message(gossip *g, view_message *m) {
    uint32_t i = m->to - 1;
    fold_message(g, m);
    if (m->kind == VIEW_PONG || m->kind == VIEW_REPLY)
        view_measured(g->view[i], g->now, m->from, views_cost(g->swarm, i, m->from - 1));
    view_receive(g->view[i], g->now, m);
    free(m);
    collect(g, i);
}

static void events(gossip *g) {
    int64_t limit = g->swarm->settings.limit_rounds * ROUTING_ROUND;
    bool over = false;
    uint64_t key;
    void *item;
    for (uint32_t i = 0; i < g->swarm->peers; i++) collect(g, i);
    while (!g->failed && sim_queue_take(&g->queue, &key, &item)) {
        int64_t at = (int64_t)(key / 2);
        bool tick = key % 2 == 1;
        bool settled = at - g->out->last_change * ROUTING_ROUND > SETTLED * PERIOD;
        if (tick && *(int64_t *)item != at) continue;
        over |= at > limit || settled;
        if (over && tick) continue;  // exchanges in progress are finished, no new one begins
        g->now = at;
        if (tick) {
            uint32_t i = (uint32_t)((int64_t *)item - g->armed);
            view_tick(g->view[i], g->now);
            collect(g, i);
        } else {
            take_message(g, item);
        }
    }
    g->out->rounds = g->now / ROUTING_ROUND;
}

// --- results

static bool has(const gossip *g, uint32_t at, router_side side, uint32_t peer, view_link *scratch, uint32_t max) {
    uint32_t n = view_links(g->view[at], side, scratch, max);
    for (uint32_t k = 0; k < n; k++)
        if (scratch[k].peer == peer + 1) return true;
    return false;
}

static int compare_links(const void *a, const void *b) {
    const plan_link *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static void gather(gossip *g) {
    uint32_t peers = g->swarm->peers, most = 0;
    for (uint32_t i = 0; i < peers; i++) most += view_links(g->view[i], ROUTER_NEXT, NULL, 0);
    g->out->link = calloc(most + 1, sizeof *g->out->link);
    view_link *next = calloc(peers + 1, sizeof *next), *scratch = calloc(peers + 1, sizeof *scratch);
    if (g->out->link == NULL || next == NULL || scratch == NULL) out_of_memory(g);
    for (uint32_t i = 0; !g->failed && i < peers; i++) {
        uint32_t n = view_links(g->view[i], ROUTER_NEXT, next, peers);
        uint32_t before = view_links(g->view[i], ROUTER_PREVIOUS, scratch, peers);
        if (g->swarm->peer[i].stage != 0 && n > g->out->most_links) g->out->most_links = n;
        if (g->swarm->peer[i].stage != 0 && before > g->out->most_links) g->out->most_links = before;
        for (uint32_t k = 0; k < before; k++) {
            uint32_t from = scratch[k].peer - 1;
            g->out->one_sided += !has(g, from, ROUTER_NEXT, i, next, peers);
        }
        n = view_links(g->view[i], ROUTER_NEXT, next, peers);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t to = next[k].peer - 1;
            if (has(g, to, ROUTER_PREVIOUS, i, scratch, peers))
                g->out->link[g->out->links++] = (plan_link){i, to, views_cost(g->swarm, i, to)};
            else
                g->out->one_sided++;
        }
    }
    free(next);
    free(scratch);
    if (!g->failed) qsort(g->out->link, g->out->links, sizeof *g->out->link, compare_links);
}

braid_err views_gossip_run(const views_swarm *swarm, views_gossip *out, braid_error *error) {
    *out = (views_gossip){0};
    gossip g = {.swarm = swarm, .out = out, .error = error, .random.state = rng_seed(swarm->settings.seed, 4)};
    open_views(&g);
    if (!g.failed) events(&g);
    if (!g.failed) gather(&g);
    uint64_t key;
    void *item;
    while (sim_queue_take(&g.queue, &key, &item))
        if (key % 2 == 0) free(item);
    sim_queue_close(&g.queue);
    for (uint32_t i = 0; g.view != NULL && i < swarm->peers; i++) free(g.view[i]);
    free(g.view);
    free(g.armed);
    if (!g.failed) return BRAID_OK;
    views_gossip_close(out);
    return error->code;
}

void views_gossip_close(views_gossip *out) {
    free(out->link);
    *out = (views_gossip){0};
}
