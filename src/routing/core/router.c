// The router as all algorithms share it: memory, neighbours in order, the queue of messages and its frames,
// and cached answers for hosts. The algorithm itself is behind router_rules (router_internal.h).
#include "routing/core/router_internal.h"

#include "base/err.h"

#include <string.h>

// --- Memory --------------------------------------------------------------------------------------

void *router_arena_take(router_arena *a, size_t bytes) {
    // large blocks start at a cache line
    size_t align = bytes < 64 ? 16 : 64, at = (a->used + align - 1) & ~(align - 1);
    a->used = at + bytes;
    return a->base == NULL ? NULL : a->base + at;
}

bool router_config_is_valid(const router_config *c) {
    if ((uint32_t)c->algorithm >= ROUTER_ALGORITHMS || (uint32_t)c->objective >= ROUTER_OBJECTIVES) return false;
    if (c->self == 0 || c->self >= 1u << 31) return false;
    if (c->source_count == 0 || c->source_count > ROUTER_MAX_SOURCES || c->capacity > ROUTER_MAX_UNITS) return false;
    if (c->max_neighbours == 0 || c->max_neighbours > ROUTER_MAX_NEIGHBOURS) return false;
    if (c->delay <= 0 || c->gather < 0 || c->slack < 0 || c->slack > ROUTER_MAX_COST || c->hold < 0) return false;
    return c->path_limit <= ROUTER_MAX_PATH && c->path_limit != 1;
}

static void lay_out(router *r, const router_rules *rules, const router_config *config, router_arena *a) {
    router_arena_take(a, rules->state_bytes);
    for (int side = 0; side < ROUTER_SIDES; side++) {
        router_neighbour *slots = router_arena_take(a, config->max_neighbours * sizeof(router_neighbour));
        uint16_t *order = router_arena_take(a, config->max_neighbours * sizeof(uint16_t));
        router_peer *sorted = router_arena_take(a, config->max_neighbours * sizeof(router_peer));
        if (r == NULL) continue;
        r->slot[side] = slots;
        r->sorted[side] = sorted;
        r->order[side] = order;
    }
    rules->lay_out(r, config, a);
    router_arena_skip_zero(a);
    router_outgoing *queue = router_arena_take(a, rules->queue_max(config) * sizeof(router_outgoing));
    if (r != NULL) r->queue = queue;
}

static router_arena measure(const router_rules *rules, const router_config *config) {
    router_arena a = {0};
    lay_out(NULL, rules, config, &a);
    return a;
}

size_t router_bytes_for(const router_rules *rules, const router_config *config) { return measure(rules, config).used; }

bool router_names_source(const router_config *c, router_peer peer) {
    for (uint32_t i = 0; i < c->source_count; i++) {
        if (c->source[i] == peer) return true;
    }
    return false;
}

static void find_commodities(router *r) {
    const router_config *c = &r->config;
    r->is_source = router_names_source(c, c->self);
    r->commodities = r->is_source ? 1 : c->source_count;
    for (uint32_t i = 0; i < r->commodities; i++) r->source[i] = r->is_source ? c->self : c->source[i];
}

router *router_init_for(const router_rules *rules, void *memory, const router_config *config, int64_t now) {
    router_arena needed = measure(rules, config);
    memset(memory, 0, needed.zero);
#ifdef BRAID_CHECKED
    memset((char *)memory + needed.zero, 0xa5, needed.used - needed.zero);
#endif
    router *r = memory;
    r->rules = rules;
    r->config = *config;
    if (r->config.hold == 0) r->config.hold = 2;
    if (r->config.lazy == 0) r->config.lazy = ROUTER_LAZY;
    if (r->config.path_limit == 0) r->config.path_limit = ROUTER_MAX_PATH;
    r->random.state = rng_seed(config->seed, config->self);
    r->now = r->deadline = now;
    r->terms_changed = true;
    r->moves = 1;
    find_commodities(r);
    router_arena a = {.base = memory};
    lay_out(r, rules, config, &a);
    r->queue_max = rules->queue_max(config);
    rules->init(r);
    return r;
}

// --- Neighbours ----------------------------------------------------------------------------------

int router_find_slot(const router *r, router_side side, router_peer peer) {
    const router_peer *first = r->sorted[side];  // branch-free binary search
    for (uint32_t left = r->count[side], half; left > 1; left -= half) {
        half = left / 2;
        first += half & -(uint32_t)(first[half - 1] < peer);
    }
    return r->count[side] > 0 && *first == peer ? (int)router_slot_at(r, side, (uint32_t)(first - r->sorted[side]))
                                                : -1;
}

int router_commodity(const router *r, router_peer source) {
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (r->source[k] == source) return (int)k;
    }
    return -1;
}

// Counts every step as a change for gwtf, and for several data peers, because their staged plans
// begin and end by the clock. Other algorithms count in their invalidation functions. The order within a step
// does not matter, because hosts ask between steps only.
static void note_moves(router *r) { r->moves += r->config.algorithm == ROUTER_GWTF || r->config.source_count > 1; }

static void changed(router *r, int64_t now) {
    note_moves(r);
    r->settled_known = false;
    r->now = now;
    router_want(r, now + r->config.gather);
}

static void see_order(router *r, router_side side) {
    r->in_order[side] = true;
    for (uint32_t i = 0; i < r->count[side]; i++) r->in_order[side] &= r->order[side][i] == i;
}

bool router_neighbour_add(router *r, int64_t now, router_peer peer, router_side side, int64_t cost) {
    uint32_t n = r->count[side];
    if (n == r->config.max_neighbours || router_slot(r, side, peer) >= 0) return false;
    uint32_t slot = 0;
    while (r->slot[side][slot].peer != 0) slot++;
    uint32_t at = n;
    for (; at > 0 && r->sorted[side][at - 1] > peer; at--) {
        r->order[side][at] = r->order[side][at - 1];
        r->sorted[side][at] = r->sorted[side][at - 1];
    }
    r->order[side][at] = (uint16_t)slot;
    r->sorted[side][at] = peer;
    r->bits[side] |= router_bit(peer);
    r->count[side]++;
    see_order(r, side);
    r->slot[side][slot] = (router_neighbour){peer, cost};
    r->terms_changed = true;
    changed(r, now);
    r->rules->link_up(r, side, slot);
    return true;
}

static void remove_neighbour(router *r, router_side side, router_peer peer) {
    uint32_t kept = 0;
    r->bits[side] = 0;
    for (uint32_t i = 0; i < r->count[side]; i++) {
        uint16_t slot = r->order[side][i];
        if (r->slot[side][slot].peer == peer) {
            r->slot[side][slot].peer = 0;
            continue;
        }
        r->bits[side] |= router_bit(r->sorted[side][i]);
        r->sorted[side][kept] = r->sorted[side][i];
        r->order[side][kept++] = slot;
    }
    r->count[side] = kept;
    see_order(r, side);
}

// Drops messages to a peer that is gone.
static void forget_messages(router *r, router_peer peer) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->queue_count; i++) {
        if (r->queue[i].to != peer) r->queue[kept++] = r->queue[i];
    }
    r->queue_count = kept;
}

void router_neighbour_gone(router *r, int64_t now, router_peer peer) {
    changed(r, now);
    r->terms_changed = true;
    r->rules->link_gone(r, peer);
    for (int side = 0; side < ROUTER_SIDES; side++) remove_neighbour(r, (router_side)side, peer);
    forget_messages(r, peer);
}

void router_cost(router *r, int64_t now, router_peer peer, router_side side, int64_t cost) {
    int slot = router_slot(r, side, peer);
    if (slot < 0) return;
    r->slot[side][slot].cost = cost;
    r->terms_changed = true;
    changed(r, now);
}

void router_capacity(router *r, int64_t now, uint32_t capacity) {
    r->config.capacity = capacity > ROUTER_MAX_UNITS ? ROUTER_MAX_UNITS : capacity;
    r->terms_changed = true;
    changed(r, now);
}

void router_relays(router *r, int64_t now, uint32_t relays) {
    if (r->config.relays == relays) return;
    r->config.relays = relays;
    changed(r, now);
}

// --- Steps ---------------------------------------------------------------------------------------

void router_receive(router *r, int64_t now, const router_message *m) {
    int slot[ROUTER_SIDES];
    bool known = false;
    for (int side = 0; side < ROUTER_SIDES; side++) {
        slot[side] = router_slot(r, (router_side)side, m->from);
        known |= slot[side] >= 0;
    }
    if (!known || m->units > ROUTER_MAX_UNITS) return;
    changed(r, now);
    r->rules->receive(r, m, slot[ROUTER_PREVIOUS], slot[ROUTER_NEXT], slot[ROUTER_SAME]);
    // the host lets messages pile up before the tick
    if (r->queue_count > r->queue_max / 4) r->flush = true;
}

void router_tick(router *r, int64_t now) {
    r->settled_known = false;
    r->now = now;
    r->deadline = ROUTER_NEVER;
    r->rules->tick(r);
    note_moves(r);
    r->flush = true;
}

int64_t router_deadline(const router *r) { return r->deadline; }
router_peer router_self(const router *r) { return r->config.self; }

// --- Messages out --------------------------------------------------------------------------------

router_outgoing *router_post(router *r, router_peer to, router_kind kind) {
    BRAID_ASSERT(r->queue_count < r->queue_max);
    router_outgoing *o = &r->queue[r->queue_count++];
    *o = (router_outgoing){.to = to, .kind = (uint8_t)kind};
    return o;
}

router_outgoing *router_waiting(router *r, router_peer to, router_kind kind, uint32_t k) {
    for (uint32_t i = r->queue_count; i > 0; i--) {
        router_outgoing *o = &r->queue[i - 1];
        if (o->to == to && o->kind == kind && o->k == k) return o;
    }
    return NULL;
}

// Groups messages by receiver and keeps the order to each receiver (insertion sort).
static void sort_queue(router *r) {
    for (uint32_t i = 1; i < r->queue_count; i++) {
        router_outgoing o = r->queue[i];
        uint32_t at = i;
        for (; at > 0 && r->queue[at - 1].to > o.to; at--) r->queue[at] = r->queue[at - 1];
        r->queue[at] = o;
    }
}

// Copies all fields except the union, which compose() fills. gwtf relies on zeroed words.
static void begin_message(const router *r, const router_outgoing *o, router_message *out) {
    memset(out, 0, r->config.algorithm == ROUTER_GWTF ? sizeof *out : offsetof(router_message, u));
    out->from = r->config.self;
    out->to = o->to;
    out->kind = (router_kind)o->kind;
    out->side = o->side;
    out->why = o->why;
    out->position = o->position;
    out->on_path = o->on_path;
    out->cost = o->cost;
    out->units = o->units;
    out->taken_back = o->taken_back;
    out->scale = o->scale;
    out->turn = o->turn;
    out->epoch = o->epoch;
    out->plan = o->plan;
    out->attempts = o->attempts;
    out->token = o->token;
    out->source = r->source[o->k];
}

static bool next_message(router *r, router_message *out) {
    while (r->queue_next < r->queue_count) {
        const router_outgoing *o = &r->queue[r->queue_next++];
        begin_message(r, o, out);
        if (!r->rules->compose(r, o, out)) continue;
        out->joined = o->to == r->last_to;
        r->last_to = o->to;
        return true;
    }
    return false;
}

bool router_next(router *r, router_message *out) {
    if (!r->flush) return false;
    r->settled_known = false;
    if (r->queue_next == 0) sort_queue(r);
    if (next_message(r, out)) return true;
    r->queue_count = r->queue_next = 0;
    r->last_to = 0;
    r->flush = false;
    return false;
}

static uint32_t body_bytes(const router_message *m) {
    switch (m->kind) {
    case ROUTER_LABEL: return 12 + 12u * m->length;  // source, cost; node, cost
    case ROUTER_ADVERT:
        return m->scale != 0 ? 20 : 16;  // source, cost, room; scale
    // source, two counts; token, position; bid
    case ROUTER_FLOW: return m->token.origin != 0 ? 22 : m->cost != 0 ? 20 : 12;
    case ROUTER_DENY: return 8;                    // source, units
    case ROUTER_LOCK: return 26 + 4u * m->length;  // token, source, position, cost, units; cycle
    case ROUTER_COMMIT: return 24;                 // token, position, units, two counts
    case ROUTER_ABORT: return 10;                  // token, position
    case ROUTER_WAY: return 16 + 4u * m->length;   // source, two counts, units on the path; peers
    case ROUTER_MAP: return 2 + 4u * m->length;    // entries
    default: return 16 + 4u * m->length;
    }
}

uint32_t router_message_bytes(const router_message *m) {
    return (m->joined ? 0u : ROUTER_FRAME_BYTES) + 2u + body_bytes(m);
}

const char *router_kind_name(router_kind kind) {
    static const char *const names[ROUTER_KINDS] = {
#define X(name, text) [ROUTER_##name] = text,
        ROUTER_MESSAGES(X)
#undef X
    };
    return (uint32_t)kind < ROUTER_KINDS ? names[kind] : "unknown";
}

// --- The flow for hosts --------------------------------------------------------------------------

void router_add_unit(router_unit *units, uint32_t max, uint32_t *n, router_unit unit) {
    if (*n < max) units[*n] = unit;
    (*n)++;
}

uint32_t router_units(const router *r, router_unit *units, uint32_t max) { return r->rules->units(r, units, max); }

// Cached, because hosts ask after every step and most steps change nothing.
uint32_t router_load(const router *r) {
    router *mine = (router *)r;  // routers live in writable memory
    if (r->loaded_at != r->moves) mine->rules_load = r->rules->load(r);
    mine->loaded_at = r->moves;
#ifdef BRAID_CHECKED
    BRAID_ASSERT(r->rules_load == r->rules->load(r));
#endif
    return r->rules_load;
}

uint64_t router_moves(const router *r) { return r->moves; }

bool router_settled(const router *r) {
    router *mine = (router *)r;
    if (r->queue_count > 0) return false;
    if (!r->settled_known) mine->rules_settled = r->rules->settled(r);
    mine->settled_known = true;
    return r->rules_settled;
}

bool router_link_busy(const router *r, router_side side, router_peer peer) {
    return r->rules->link_busy(r, side, peer);
}
