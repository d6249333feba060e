// The host of one peer: caches, kept rows, blobs and jobs. It checks that the peer keeps the rules of
// session.h.
#include "sim/session/inside.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define HASH_OF_MODEL   0x11
#define HASH_OF_KERNELS 0x22

// ---- blobs

static session_blob blob_new(world *w, uint32_t node, const uint64_t *values, uint32_t rows, uint32_t layers) {
    world_node *n = &w->node[node];
    for (uint32_t b = 0; b < WORLD_BLOBS; b++) {
        if (n->blob[b].values) continue;
        size_t bytes = (size_t)rows * layers * sizeof *values;
        n->blob[b] = (world_blob){.count = rows, .values = malloc(bytes)};
        BRAID_ALLOCATED(n->blob[b].values, bytes);
        memcpy(n->blob[b].values, values, bytes);
        n->blobs++;
        return b + 1;
    }
    world_fail(w, "n%u holds %u blobs", node, WORLD_BLOBS);
    return 0;
}

static world_blob *blob_get(world *w, uint32_t node, session_blob number) {
    if (number == 0 || number > WORLD_BLOBS || !w->node[node].blob[number - 1].values) {
        world_fail(w, "n%u uses blob %llu, which it does not hold", node, (unsigned long long)number);
        return NULL;
    }
    return &w->node[node].blob[number - 1];
}

static void blob_drop(world *w, uint32_t node, session_blob number) {
    world_blob *b = blob_get(w, node, number);
    if (!b) return;
    free(b->values);
    *b = (world_blob){0};
    w->node[node].blobs--;
}

// ---- sends

static void send_slot_rows(world *w, uint32_t node, uint32_t to, const session_effect *e) {
    const world_slot *s = &w->node[node].slot[e->slot];
    if (!s->used || e->position < s->kept_from || e->position + e->count > s->kept_to) {
        world_fail(w, "n%u sends rows %u+%u of slot %u and keeps [%u, %u)", node, e->position, e->count, e->slot,
                   s->kept_from, s->kept_to);
        return;
    }
    link_send(w, node, to, e, s->kept + e->position, e->count, 1);
}

static void send_slot_cache(world *w, uint32_t node, uint32_t to, const session_effect *e) {
    const world_slot *s = &w->node[node].slot[e->slot];
    if (!s->used || e->position + e->count > s->length) {
        world_fail(w, "n%u sends the cache of tokens %u+%u and has %u", node, e->position, e->count, s->length);
        return;
    }
    uint64_t values[WORLD_LAYERS * WORLD_TOKENS];
    uint32_t layers = (uint32_t)(e->layer_end - e->layer_begin), at = 0;
    for (uint32_t l = e->layer_begin; l < e->layer_end; l++) {
        for (uint32_t k = 0; k < e->count; k++) values[at++] = s->chain[l][e->position + k];
    }
    link_send(w, node, to, e, values, e->count, layers);
}

static void send_tokens(world *w, uint32_t node, uint32_t to, const session_effect *e) {
    uint64_t values[WORLD_TOKENS];
    bool ok = e->count <= WORLD_TOKENS;
    for (uint32_t k = 0; ok && k < e->count; k++)
        values[k] = model_embed(text_fed(w, node, e->number, e->position + k, &ok));
    if (!ok) {
        world_fail(w, "n%u sends tokens %u+%u that session %llu does not have", node, e->position, e->count,
                   (unsigned long long)e->number);
        return;
    }
    link_send(w, node, to, e, values, e->count, 1);
}

static void effect_send(world *w, uint32_t node, const session_effect *e) {
    uint32_t to = world_node_of(w, &e->id);
    if (to == WORLD_NODES || !session_message_decode(e->bytes, e->byte_count, &w->message)) {
        world_fail(w, "n%u sends something that cannot be read", node);
        return;
    }
    if (w->trace && e->message_kind != SESSION_MESSAGE_CARDS) {
        const session_message *m = &w->message;
        world_trace(w, "n%u -> n%u %s %u+%u", node, to, session_message_name(m->kind), e->position, e->count);
        if (m->kind == SESSION_MESSAGE_ROWS)
            world_trace(w, "    session %llu epoch %u cut %u rows %u+%u home %u",
                        (unsigned long long)m->rows.session.number, m->rows.epoch, m->rows.cut, m->rows.position,
                        m->rows.count, m->rows.home);
        if (m->kind == SESSION_MESSAGE_WANT)
            world_trace(w, "    session %llu epoch %u ask %u cut %u from %u",
                        (unsigned long long)m->want.session.number, m->want.epoch, m->want.ask, m->want.cut,
                        m->want.from);
    }
    switch (e->source) {
    case SESSION_SOURCE_TOKENS: send_tokens(w, node, to, e); break;
    case SESSION_SOURCE_KEPT: send_slot_rows(w, node, to, e); break;
    case SESSION_SOURCE_CACHE: send_slot_cache(w, node, to, e); break;
    default: link_send(w, node, to, e, NULL, 0, 0);
    }
}

// ---- jobs

static void effect_job(world *w, uint32_t node, const session_effect *e) {
    world_node *n = &w->node[node];
    if (e->slot >= WORLD_SLOTS) {
        world_fail(w, "n%u runs slot %u", node, e->slot);
        return;
    }
    world_slot *s = &n->slot[e->slot];
    bool run = e->kind == SESSION_EFFECT_RUN, adopt = e->kind == SESSION_EFFECT_ADOPT;
    const world_blob *b = adopt ? NULL : blob_get(w, node, e->blob);
    if (!b && !adopt) return;
    if (!s->used) *s = (world_slot){.used = true, .begin = e->layer_begin, .end = e->layer_end};
    if (s->job || s->begin != e->layer_begin || s->end != e->layer_end || e->position > s->length ||
        (adopt ? s->length > 0 || e->count > WORLD_TOKENS / WORLD_PAGE
               : e->first_row + e->count > b->count || e->position + e->count > WORLD_TOKENS)) {
        world_fail(w, "n%u runs rows %u+%u of slot %u, which has %u%s", node, e->position, e->count, e->slot, s->length,
                   s->job ? " and a job" : "");
        return;
    }
    world_trace(w, "n%u %s slot %u rows %u+%u", node,
                run     ? "runs"
                : adopt ? "adopts"
                        : "imports",
                e->slot, e->position, e->count);
    s->job = true;
    world_item *item = world_item_new(ITEM_DONE, node, 0);
    item->life = n->life;
    item->slot = e->slot;
    item->ticket = e->ticket;
    item->job = *e;
    if (adopt) memcpy(item->key, e->keys, e->count * sizeof *e->keys);
    uint64_t cost = run ? WORLD_MS / 2 + e->count * (uint64_t)(e->layer_end - e->layer_begin) * w->row_ns : WORLD_MS;
    if (n->slow_until > w->now) cost *= 40;
    world_put(w, w->now + cost, item);
}

// The work of a job, at its end.
static void run_rows(world *w, uint32_t node, const session_effect *job) {
    world_slot *s = &w->node[node].slot[job->slot];
    const world_blob *b = blob_get(w, node, job->blob);
    if (!b) return;
    if (job->kind == SESSION_EFFECT_IMPORT) {
        uint32_t at = 0;
        for (uint32_t l = job->layer_begin; l < job->layer_end; l++) {
            for (uint32_t k = 0; k < job->count; k++) s->chain[l][job->position + k] = b->values[at++];
        }
        s->kept_from = s->kept_to = job->position + job->count;
        w->result->imported_rows += job->count;
    } else {
        for (uint32_t k = 0; k < job->count; k++) {
            uint64_t x = b->values[job->first_row + k];
            s->kept[job->position + k] = model_row(s->chain, s->begin, s->end, job->position + k, x);
        }
        if (job->position < s->kept_from) s->kept_from = job->position;
        s->kept_to = job->position + job->count;
    }
    s->length = job->position + job->count;
}

void host_done(world *w, const world_item *item) {
    world_node *n = &w->node[item->node];
    if (!n->alive || n->life != item->life) return;
    uint32_t adopted = 0;
    if (item->job.kind == SESSION_EFFECT_ADOPT)
        adopted = pages_adopt(w, item->node, item);
    else
        run_rows(w, item->node, &item->job);
    n->slot[item->slot].job = false;
    session_event e = {
        .kind = SESSION_EVENT_DONE, .slot = item->slot, .ticket = item->ticket, .count = adopted, .cost_ns = 1};
    host_event(w, item->node, &e);
}

static void effect_free(world *w, uint32_t node, uint32_t slot) {
    world_slot *s = &w->node[node].slot[slot];
    if (s->job) world_fail(w, "n%u frees slot %u during a job", node, slot);
    s->used = false;
    s->length = s->kept_from = s->kept_to = 0;
}

// ---- effects

static void effect_output(world *w, uint32_t node, const session_effect *e) {
    const world_blob *b = blob_get(w, node, e->blob);
    if (!b) return;
    world_trace(w, "n%u output of session %llu: %u+%u", node, (unsigned long long)e->number, e->position, e->count);
    text_output(w, node, e, b);
    blob_drop(w, node, e->blob);
}

static void effect_tell(world *w, uint32_t node, const session_tell *tell) {
    if (tell->kind == SESSION_TELL_BEGAN) text_began(w, node, tell->number);
    if (!w->trace) return;
    world_trace(w, "n%u tells %s session %llu n%u %s epoch %u layer %u", node, session_tell_name(tell->kind),
                (unsigned long long)tell->number, world_node_of(w, &tell->id), session_reason_name(tell->reason),
                tell->epoch, tell->layer);
    for (uint32_t h = 0; tell->path && h < tell->path->count; h++) {
        const session_hop *hop = &tell->path->hop[h];
        world_trace(w, "    n%u [%u, %u)", world_node_of(w, &hop->id), hop->layer_begin, hop->layer_end);
    }
}

static void do_effect(world *w, uint32_t node, const session_effect *e) {
    world_node *n = &w->node[node];
    switch (e->kind) {
    case SESSION_EFFECT_SEND: effect_send(w, node, e); break;
    case SESSION_EFFECT_DIAL: link_dial(w, node, world_node_of(w, &e->id)); break;
    case SESSION_EFFECT_RUN:
    case SESSION_EFFECT_ADOPT:
    case SESSION_EFFECT_IMPORT: effect_job(w, node, e); break;
    case SESSION_EFFECT_NAME: pages_name(w, node, e); break;
    case SESSION_EFFECT_FREE: effect_free(w, node, e->slot); break;
    case SESSION_EFFECT_FORGET:
        if (n->slot[e->slot].kept_from < e->position) n->slot[e->slot].kept_from = e->position;
        break;
    case SESSION_EFFECT_RELEASE: blob_drop(w, node, e->blob); break;
    case SESSION_EFFECT_OUTPUT: effect_output(w, node, e); break;
    case SESSION_EFFECT_TELL: effect_tell(w, node, &e->tell); break;
    case SESSION_EFFECT_DRAINED: n->leaving = true; break;
    default: break;
    }
}

// ---- bounds

static void check_bounds(world *w, uint32_t node) {
    const world_node *n = &w->node[node];
    session_totals totals;
    session_look(n->peer, &totals);
    // jobs of an older, larger span may not have ended yet
    uint64_t reserved = 0;
    for (uint32_t i = 0; i < WORLD_SLOTS; i++) {
        session_slot_view slot;
        session_look_slot(n->peer, i, &slot);
        if (slot.exists && !slot.closing) reserved += (uint64_t)slot.room * (slot.layer_end - slot.layer_begin);
    }
    if (reserved > totals.room)
        world_fail(w, "n%u reserved %llu of %llu", node, (unsigned long long)reserved, (unsigned long long)totals.room);
    uint64_t rows = 0;
    for (uint32_t s = 0; s < WORLD_SLOTS; s++) {
        const world_slot *slot = &n->slot[s];
        if (slot->used) rows += slot->kept_to > slot->kept_from ? slot->kept_to - slot->kept_from : 0;
    }
    uint64_t under_way = totals.held * (uint64_t)(n->config.window_rows + 2 * n->config.chunk_rows);
    uint64_t most = n->config.kept_bytes / n->config.span.row_bytes + under_way;
    if (rows > most)
        world_fail(w, "n%u keeps %llu rows, at most %llu are allowed", node, (unsigned long long)rows,
                   (unsigned long long)most);
    if (n->blobs > totals.held * (SESSION_QUEUE + 2))
        world_fail(w, "n%u holds %u blobs for %u sessions", node, n->blobs, totals.held);
}

static void put_tick(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    uint64_t at = session_deadline(n->peer);
    if (at >= n->tick_ns && n->tick_ns > w->now) return;
    n->tick_ns = at > w->now ? at : w->now + 1;
    world_item *item = world_item_new(ITEM_TICK, node, 0);
    item->life = n->life;
    world_put(w, n->tick_ns, item);
}

void host_event(world *w, uint32_t node, const session_event *e) {
    world_node *n = &w->node[node];
    if (!n->alive || w->result->failed) return;
    if (w->now / (1000 * WORLD_MS) != n->second) {
        n->second = w->now / (1000 * WORLD_MS);
        n->steps = 0;
    }
    if (++n->steps > WORLD_STEPS)
        world_fail(w, "n%u makes %llu steps in one second", node, (unsigned long long)n->steps);
    session_step(n->peer, w->now, e);
    session_effect effect;
    uint32_t effects = 0;
    while (!w->result->failed && session_next_effect(n->peer, &effect)) {
        do_effect(w, node, &effect);
        if (++effects > WORLD_STEPS) world_fail(w, "n%u has no end of effects", node);
    }
    check_bounds(w, node);
    put_tick(w, node);
    texts_go_on(w, node);
}

void host_message(world *w, const world_item *item) {
    world_node *n = &w->node[item->node];
    if (!n->alive || n->life != item->life) return;
    const world_link *l = link_of(w, item->node, item->from);
    if (item->from != item->node && (l->generation != item->generation || !l->up[item->node > item->from])) return;
    if (!session_message_decode(item->bytes, item->count, &w->message)) {
        world_fail(w, "n%u receives something that cannot be read", item->node);
        return;
    }
    session_message m = w->message;
    session_event e = {.kind = SESSION_EVENT_MESSAGE, .id = w->node[item->from].id, .msg = &m};
    if (item->rows > 0) {
        uint64_t values[WORLD_LAYERS * WORLD_TOKENS];
        memcpy(values, item->bytes + item->count, (size_t)item->rows * item->layers * sizeof values[0]);
        e.blob = blob_new(w, item->node, values, item->rows, item->layers);
    }
    host_event(w, item->node, &e);
}

// ---- processes

void host_start(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    n->alive = true;
    n->leaving = false;
    n->life++;
    n->paused_until = n->slow_until = 0;
    n->tick_ns = 0;
    n->config.incarnation = rng_next(&w->random) | 1;
    n->config.version = 1000000 + w->now / WORLD_MS;
    n->config.random_seed = rng_next(&w->random);
    size_t bytes = session_peer_bytes(&n->config);
    free(n->peer);
    void *memory = aligned_alloc(64, bytes);
    BRAID_ALLOCATED(memory, bytes);
    memset(memory, 0, bytes);
    n->peer = session_peer_init(memory, &n->config, w->now);
    for (uint32_t k = 0; k < w->nodes; k++) {
        if (k == node || (k > 0 && node > 0 && rng_below(&w->random, 2))) continue;
        char address[] = "sim:0";
        address[4] = (char)('0' + k);
        session_event e = {.kind = SESSION_EVENT_JOIN, .id = w->node[k].id, .address = address};
        host_event(w, node, &e);
    }
}

void host_stop(world *w, uint32_t node) {
    world_node *n = &w->node[node];
    if (!n->alive) return;
    session_totals totals;
    session_look(n->peer, &totals);
    w->result->repairs += totals.repairs;
    w->result->refused += totals.refused;
    w->result->replayed_rows += totals.replayed_rows;
    w->result->recomputed_rows += totals.recomputed_rows;
    n->alive = false;
    for (uint32_t b = 0; b < WORLD_BLOBS; b++) {
        free(n->blob[b].values);
        n->blob[b] = (world_blob){0};
    }
    n->blobs = 0;
    memset(n->page, 0, sizeof n->page);
    for (uint32_t s = 0; s < WORLD_SLOTS; s++) n->slot[s].used = n->slot[s].job = false;
    free(n->peer);
    n->peer = NULL;
}
