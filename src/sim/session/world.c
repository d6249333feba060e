// The loop of a schedule, and the checks at its end.
#include "sim/session/inside.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void world_fail(world *w, const char *format, ...) {
    if (w->result->failed) return;
    w->result->failed = true;
    int at = snprintf(w->result->why, sizeof w->result->why, "%.3f s: ", (double)w->now / 1e9);
    va_list list;
    va_start(list, format);
    vsnprintf(w->result->why + at, sizeof w->result->why - (size_t)at, format, list);
    va_end(list);
    world_trace(w, "FAILED %s", w->result->why);
}

void world_trace(world *w, const char *format, ...) {
    if (!w->trace) return;
    fprintf(w->trace, "%9.3f ", (double)w->now / 1e6);
    va_list list;
    va_start(list, format);
    vfprintf(w->trace, format, list);
    va_end(list);
    fputc('\n', w->trace);
}

world_item *world_item_new(item_kind kind, uint32_t node, size_t bytes) {
    world_item *item = calloc(1, sizeof *item + bytes);
    BRAID_ALLOCATED(item, sizeof *item + bytes);
    item->kind = kind;
    item->node = node;
    return item;
}

void world_put(world *w, uint64_t at_ns, world_item *item) { sim_queue_put(&w->queue, at_ns, item); }

uint32_t world_node_of(const world *w, const braid_id *id) {
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (id_equal(&w->node[i].id, id)) return i;
    }
    return WORLD_NODES;
}

// ---- the beginning

// Every layer is on at least two peers that are not origins.
static void choose_spans(world *w) {
    uint32_t spans = w->nodes - w->origins, half = spans / 2;
    for (uint32_t k = 0; k < spans; k++) {
        session_config *c = &w->node[w->origins + k].config;
        uint32_t group = k < half ? half : spans - half, at = k < half ? k : k - half;
        uint32_t begin = at * w->layers / group, end = (at + 1) * w->layers / group;
        if (begin > 0 && rng_below(&w->random, 3) == 0) begin--;
        if (end < w->layers && rng_below(&w->random, 3) == 0) end++;
        c->serves = end > begin;
        c->span.layer_begin = (uint16_t)begin;
        c->span.layer_end = (uint16_t)end;
    }
    session_config *first = &w->node[0].config;
    first->serves = rng_below(&w->random, 4) == 0;  // an origin with a span of its own sessions
    first->span.layer_end = (uint16_t)(1 + rng_below(&w->random, w->layers));
}

static void configure(world *w, uint32_t node) {
    session_config *c = &w->node[node].config;
    c->self = w->node[node].id;
    snprintf(c->address, sizeof c->address, "sim:%u", node);
    c->slots = WORLD_SLOTS;
    c->own = WORLD_OWN;
    c->route = w->seed % 2 ? session_route_spans : NULL;
    c->route_context = w->route_memory;
    c->chunk_rows = 1 + (uint32_t)rng_below(&w->random, 16);
    c->window_rows = c->chunk_rows * (2 + (uint32_t)rng_below(&w->random, 3));
    c->cache_chunk = 1 + (uint32_t)rng_below(&w->random, 16);
    c->lease_ns = 4000 * WORLD_MS;
    c->avoid_ns = 2000 * WORLD_MS;
    c->slow_ns = 3000 * WORLD_MS;
    c->span.layers = w->layers;
    c->span.cache_tokens = w->tight ? 150 + (uint32_t)rng_below(&w->random, 150) : 4 * WORLD_TOKENS;
    c->span.row_bytes = 8;
    c->span.token_layer_bytes = rng_below(&w->random, 2) ? 1 : 64;
    c->span.layer_ns = (uint32_t)w->row_ns;
    c->kept_bytes = 8 * (rng_below(&w->random, 3) == 0 ? rng_below(&w->random, 60) : 1000);
}

static void begin(world *w, uint64_t seed, uint64_t mutants) {
    w->random.state = rng_seed(seed, 0x5e55);
    w->layers = (uint16_t)(4 + rng_below(&w->random, WORLD_LAYERS - 3));
    w->nodes = 6 + (uint32_t)rng_below(&w->random, WORLD_NODES - 5);
    w->origins = 1 + (uint32_t)rng_below(&w->random, 2);
    w->row_ns = 20000 + rng_below(&w->random, 200000);
    w->origins_die = rng_below(&w->random, 4) == 0;
    w->tight = rng_below(&w->random, 3) == 0;
    w->fault_gap_ns = (60 + rng_below(&w->random, 900)) * WORLD_MS;
    w->faults_ns = (2000 + rng_below(&w->random, 6000)) * WORLD_MS;
    w->end_ns = w->faults_ns + 60000 * WORLD_MS;
    for (uint32_t n = 0; n < w->nodes; n++) {
        w->node[n].id.bytes[0] = (uint8_t)rng_next(&w->random);
        w->node[n].id.bytes[31] = (uint8_t)(n + 1);
        w->node[n].config.mutants = mutants;
        configure(w, n);
    }
    for (uint32_t i = 0; i < WORLD_PREFIXES * WORLD_PREFIX; i++)
        w->prefix[i / WORLD_PREFIX][i % WORLD_PREFIX] = rng_next(&w->random) % 1000;
    choose_spans(w);
    for (uint32_t n = 0; n < w->nodes; n++) w->node[n].first_span = w->node[n].config.span;
    for (uint32_t a = 0; a < w->nodes; a++) {
        for (uint32_t b = a + 1; b < w->nodes; b++)
            w->link[a][b].latency_ns = (1 + rng_below(&w->random, 25)) * WORLD_MS;
    }
    for (uint32_t n = 0; n < w->nodes; n++) world_put(w, n * WORLD_MS, world_item_new(ITEM_START, n, 0));
    for (uint32_t k = 0; k < 4; k++)
        world_put(w, (500 + rng_below(&w->random, 1000)) * WORLD_MS, world_item_new(ITEM_TEXT, 0, 0));
    for (uint32_t k = 0; k < 6; k++)
        world_put(w, 1500 * WORLD_MS + rng_below(&w->random, w->faults_ns + 2000 * WORLD_MS),
                  world_item_new(ITEM_TEXT, 0, 0));
    world_put(w, 1000 * WORLD_MS, world_item_new(ITEM_FAULT, 0, 0));
}

// ---- events

static void leave(world *w, const world_item *item) {
    world_node *n = &w->node[item->node];
    if (!n->alive || n->life != item->life || w->healed) return;
    world_trace(w, "n%u leaves", item->node);
    texts_lose(w, item->node);
    host_stop(w, item->node);
    links_crash(w, item->node);
}

static void tick(world *w, const world_item *item) {
    world_node *n = &w->node[item->node];
    if (!n->alive || n->life != item->life) return;
    if (n->tick_ns <= w->now) n->tick_ns = 0;
    session_event e = {.kind = SESSION_EVENT_TICK};
    host_event(w, item->node, &e);
}

static void handle(world *w, const world_item *item) {
    switch (item->kind) {
    case ITEM_TICK: tick(w, item); break;
    case ITEM_MESSAGE: host_message(w, item); break;
    case ITEM_UP:
    case ITEM_DOWN:
        if (w->node[item->node].alive && w->node[item->node].life == item->life) link_told(w, item);
        break;
    case ITEM_DIALED: link_dialed(w, item); break;
    case ITEM_DONE: host_done(w, item); break;
    case ITEM_START:
        if (!w->node[item->node].alive) host_start(w, item->node);
        break;
    case ITEM_FAULT: fault_next(w); break;
    case ITEM_TEXT: text_begin(w); break;
    case ITEM_LEAVE: leave(w, item); break;
    case ITEM_WINDOW_DEATH: fault_window_death(w, item); break;
    }
}

static bool of_a_node(const world_item *item) { return item->kind <= ITEM_DONE; }

static bool all_ended(const world *w) {
    if (!w->healed) return false;
    for (uint32_t i = 0; i < WORLD_TEXTS; i++) {
        if (w->text[i].used && !w->text[i].ended) return false;
    }
    return true;
}

static void loop(world *w, uint64_t until_ns, bool until_ended) {
    uint64_t at;
    void *taken;
    while (!w->result->failed && sim_queue_next(&w->queue) <= until_ns && sim_queue_take(&w->queue, &at, &taken)) {
        world_item *item = taken;
        w->now = at;
        if (of_a_node(item) && w->node[item->node].alive && w->node[item->node].paused_until > w->now) {
            world_put(w, w->node[item->node].paused_until, item);
            continue;
        }
        w->result->events++;
        handle(w, item);
        free(item);
        if (until_ended && all_ended(w)) return;
    }
}

// ---- the end

static void check_finished(world *w) {
    for (uint32_t i = 0; i < WORLD_TEXTS; i++) {
        const world_text *t = &w->text[i];
        if (!t->used || t->ended) continue;
        session_own_view own;
        session_look_own(w->node[t->node].peer, t->number, &own);
        world_fail(w, "n%u text %llu is not finished: %u of %u tokens, epoch %u, needs %u of %u%s", t->node,
                   (unsigned long long)t->number, t->known, t->total, own.epoch, own.need, own.length,
                   own.waiting ? ", waiting for a path" : "");
    }
}

static void check_nothing_left(world *w) {
    for (uint32_t n = 0; n < w->nodes; n++) {
        if (!w->node[n].alive) continue;
        session_totals totals;
        session_look(w->node[n].peer, &totals);
        if (totals.held > 0 || totals.own > 0 || w->node[n].blobs > 0 || totals.room_used > 0)
            world_fail(w, "n%u still has %u sessions of others, %u of its own and %u blobs", n, totals.held, totals.own,
                       w->node[n].blobs);
        for (uint32_t s = 0; s < WORLD_SLOTS; s++) {
            if (w->node[n].slot[s].used) world_fail(w, "slot %u of n%u was not freed", s, n);
        }
    }
}

void session_sim_run(uint64_t seed, session_sim_mode mode, uint64_t mutants, FILE *trace, session_sim_result *result) {
    *result = (session_sim_result){0};
    world *w = calloc(1, sizeof *w);
    BRAID_ALLOCATED(w, sizeof *w);
    w->seed = seed;
    w->mode = mode;
    w->trace = trace;
    w->result = result;
    w->route_memory = malloc(session_route_spans_bytes());
    BRAID_ALLOCATED(w->route_memory, session_route_spans_bytes());
    begin(w, seed, mutants);
    loop(w, w->end_ns, true);
    if (!result->failed) check_finished(w);
    result->virtual_ns = w->now;
    if (!result->failed) loop(w, w->now + 12000 * WORLD_MS, false);
    if (!result->failed) check_nothing_left(w);
    for (uint32_t n = 0; n < w->nodes; n++) host_stop(w, n);
    uint64_t at;
    void *item;
    while (sim_queue_take(&w->queue, &at, &item)) free(item);
    sim_queue_close(&w->queue);
    free(w->route_memory);
    free(w);
}
