// Virtual links that behave like src/net. A dial gets one answer. A message may overtake a payload,
// never another message. A broken link loses all that it had not delivered. A newer connection to
// the same id replaces the older one.
#include "sim/inside.h"

#include <string.h>

static const uint64_t SECOND = 1000000000;

// A property of a pair, the same in both directions. Asymmetric links differ by direction, and one
// direction in five is slow.
static uint64_t pair_value(const sim_cluster *s, uint32_t a, uint32_t b, uint64_t what, uint64_t most) {
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    if (s->c->net.asymmetric) {
        low = a;
        high = b;
    }
    uint64_t seed = rng_seed(rng_seed(rng_seed(s->c->seed, what), low), high);
    if (s->c->net.asymmetric && rng_mix(seed) % 5 == 0) most *= SIM_ASYMMETRY;
    return most / 10 + seed % (most - most / 10 + 1);
}

// Time until messages pass again; 0: they do now.
static uint64_t cut_ns(const sim_cluster *s, uint32_t from, uint32_t to) {
    uint64_t cut = s->node[from].sends_cut_until_ns > s->node[to].receives_cut_until_ns ? s->node[from].sends_cut_until_ns : s->node[to].receives_cut_until_ns;
    uint64_t partition = sim_trouble_cut_until(s, from, to);
    if (partition > cut) cut = partition;
    return cut > s->now ? cut - s->now : 0;
}

static uint64_t link_delay_ns(sim_cluster *s, uint32_t from, uint32_t to) { return pair_value(s, from, to, 1, s->c->net.latency_ns) + rng_below(&s->random, s->c->net.jitter_ns + 1); }

static uint64_t delay_ns(sim_cluster *s, uint32_t from, uint32_t to) { return cut_ns(s, from, to) + link_delay_ns(s, from, to); }

static uint32_t node_linked(const sim_cluster *s, uint32_t from, const braid_id *id) {
    uint32_t begins = sim_id_begins(id);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->link[from][i].up && s->id_begins[i] == begins && id_equal(&s->node[i].id, id)) return i;
    return SIM_MAX_NODES;
}

// The newest process with this address.
static uint32_t node_at(const sim_cluster *s, const char *address) {
    for (uint32_t i = s->nodes; i-- > 0;)
        if (strcmp(s->node[i].config.address, address) == 0) return i;
    return SIM_MAX_NODES;
}

static bool happens(sim_cluster *s, uint32_t permille) { return permille != 0 && rng_below(&s->random, 1000) < permille; }

static void message_put(sim_cluster *s, uint32_t from, uint32_t to, const effect *e) {
    sim_item *item = sim_item_new(ITEM_MESSAGE, to, e->byte_count);
    memcpy(item->bytes, e->bytes, e->byte_count);
    item->from = from;
    item->sent_ns = s->now;
    item->connection = s->link[from][to].connection;
    item->lane = e->blob ? LANE_BULK : LANE_CONTROL;
    sim_buffer *payload = e->blob ? sim_blobs_get(&s->node[from].blobs, e->blob) : NULL;
    bool corrupts = s->c->net.forwarder_corrupts && from == s->c->data_peers && e->message_kind == MESSAGE_CARRY_CHUNKS;
    item->payload = e->blob_bytes > 0 ? sim_buffer_part(payload, e->blob_offset, e->blob_bytes, payload->bytes) : sim_buffer_hold(payload);
    if (corrupts) {
        sim_buffer_drop(item->payload);
        item->payload = sim_buffer_part(payload, 0, payload->bytes, payload->bytes);
        item->payload->data[0] ^= 1;
    }
    uint64_t *last = &s->link[from][to].last_ns[item->lane];
    uint64_t at = s->now + delay_ns(s, from, to);
    if (at < *last) at = *last;
    if (item->lane == LANE_BULK) at += pair_value(s, from, to, 2, s->c->net.payload_ns);
    *last = at;
    sim_item_put(s, at, item);
}

void sim_link_send(sim_cluster *s, uint32_t from, const effect *e) {
    uint32_t to = node_linked(s, from, &e->id);
    if (to == SIM_MAX_NODES) {
        sim_trace(s, from, "   lost: no link");
        return;
    }
    // a shutdown message is never lost by chance, because its sender cannot repeat it
    if (e->message_kind != MESSAGE_LEAVE && e->message_kind != MESSAGE_DISMISS && happens(s, e->blob ? 0 : s->c->net.lost_permille)) {
        s->stats->lost++;
        sim_trace(s, from, "   lost: by chance");
        return;
    }
    s->stats->delayed += cut_ns(s, from, to) > 0;
    message_put(s, from, to, e);
    if (!happens(s, e->blob ? s->c->net.doubled_tensors : s->c->net.doubled_permille)) return;
    s->stats->doubled++;
    message_put(s, from, to, e);
}

static void down_put(sim_cluster *s, uint64_t at, uint32_t node, uint32_t from, const braid_id *id, uint32_t connection, bool refused) {
    sim_item *item = sim_item_new(ITEM_LINK_DOWN, node, 0);
    item->from = from;
    item->id = *id;
    item->connection = connection;
    item->refused = refused;
    sim_item_put(s, at, item);
}

void sim_link_dial(sim_cluster *s, uint32_t from, const effect *e) {
    if (node_linked(s, from, &e->id) != SIM_MAX_NODES) return;
    uint32_t to = node_at(s, e->address);
    if (to == SIM_MAX_NODES) {
        sim_fail(s, "%s dials %s, which no peer ever had", s->node[from].name, e->address);
        return;
    }
    if (s->link[from][to].dialing) return;
    s->link[from][to].dialing = true;
    sim_item *item = sim_item_new(ITEM_DIAL, to, 0);
    item->from = from;
    item->id = e->id;
    sim_item_put(s, s->now + cut_ns(s, from, to) + 3 * link_delay_ns(s, from, to), item);
}

void sim_link_close(sim_cluster *s, uint32_t from, const braid_id *id) {
    uint32_t to = node_linked(s, from, id);
    if (to == SIM_MAX_NODES) return;
    sim_link *mine = &s->link[from][to];
    mine->up = false;
    mine->cut_ns[LANE_BULK] = s->now;
    uint64_t at = s->now + delay_ns(s, from, to);
    if (at < mine->last_ns[LANE_CONTROL]) at = mine->last_ns[LANE_CONTROL];
    down_put(s, at, to, from, &s->node[from].id, mine->connection, false);
    mine->connection = 0;
    down_put(s, s->now, from, to, id, 0, false);
}

// Messages on their way may arrive in part: the first ones of each lane, never one without those
// before it.
static void link_cut(sim_cluster *s, sim_link *direction, bool clean) {
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t last = direction->last_ns[lane] > s->now ? direction->last_ns[lane] : s->now;
        direction->cut_ns[lane] = clean ? last : s->now + rng_below(&s->random, last - s->now + 1);
    }
}

void sim_link_die(sim_cluster *s, uint32_t node, bool machine, bool clean) {
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_link *theirs = &s->link[i][node];
        sim_link *mine = &s->link[node][i];
        mine->up = false;
        link_cut(s, mine, clean);
        if (!s->node[i].alive || !theirs->up) continue;
        uint64_t at = s->now + delay_ns(s, node, i);
        for (int lane = 0; lane < LANES; lane++)
            if (at < mine->cut_ns[lane]) at = mine->cut_ns[lane];
        if (machine) at += SECOND + rng_below(&s->random, 40 * SECOND);
        down_put(s, at, i, node, &s->node[node].id, theirs->connection, false);
    }
}

void sim_link_flap(sim_cluster *s) {
    uint32_t pairs[SIM_MAX_NODES * SIM_MAX_NODES / 2][2], count = 0;
    for (uint32_t a = 0; a < s->nodes; a++)
        for (uint32_t b = 0; b < a; b++) {
            bool up = s->node[a].alive && s->node[b].alive && s->link[a][b].up && s->link[b][a].up;
            if (!up || s->link[a][b].connection != s->link[b][a].connection) continue;
            pairs[count][0] = a;
            pairs[count++][1] = b;
        }
    if (count == 0) return;
    const uint32_t *pair = pairs[rng_below(&s->random, count)];
    s->stats->link_falls++;
    for (int i = 0; i < 2; i++) {
        uint32_t from = pair[i], to = pair[1 - i];
        link_cut(s, &s->link[from][to], false);
        uint64_t at = s->now + delay_ns(s, from, to);
        for (int lane = 0; lane < LANES; lane++)
            if (at < s->link[from][to].cut_ns[lane]) at = s->link[from][to].cut_ns[lane];
        down_put(s, at, to, from, &s->node[from].id, s->link[from][to].connection, false);
        sim_trace(s, from, "XX link to %s falls", s->node[to].name);
    }
}

static void report_down(sim_cluster *s, uint32_t node, const braid_id *id, bool refused) {
    event e = {.kind = EVENT_LINK_DOWN, .id = *id, .refused = refused};
    sim_step(s, node, &e);
}

static void report_up(sim_cluster *s, uint32_t node, uint32_t other, uint32_t connection) {
    // an open link to the same peer falls first
    uint32_t old = node_linked(s, node, &s->node[other].id);
    if (old != SIM_MAX_NODES) {
        s->link[node][old].up = false;
        report_down(s, node, &s->node[old].id, false);
        if (!s->node[node].alive) return;
    }
    sim_link *link = &s->link[node][other];
    link->up = true;
    link->dialing = false;
    link->connection = connection;
    for (int lane = 0; lane < LANES; lane++) link->cut_ns[lane] = UINT64_MAX;
    event e = {.kind = EVENT_LINK_UP, .id = s->node[other].id};
    sim_step(s, node, &e);
}

static void item_dial(sim_cluster *s, const sim_item *item) {
    uint32_t listener = item->node, dialer = item->from;
    sim_node *there = &s->node[listener];
    sim_link *theirs = &s->link[dialer][listener], *mine = &s->link[listener][dialer];
    if (!s->node[dialer].alive || !theirs->dialing) return;
    uint64_t back = s->now + delay_ns(s, listener, dialer);
    if (!there->alive || !id_equal(&there->id, &item->id)) {
        bool silent = !there->alive && there->machine_died;
        down_put(s, silent ? s->now + 5 * SECOND : back, dialer, listener, &item->id, 0, !there->alive && !silent);
        return;
    }
    // a dial in the other direction won
    if (mine->up && mine->connection && theirs->connection == mine->connection) return;
    uint32_t connection = ++s->connections;
    theirs->connection = connection;
    theirs->last_ns[LANE_CONTROL] = theirs->last_ns[LANE_BULK] = 0;
    mine->last_ns[LANE_CONTROL] = mine->last_ns[LANE_BULK] = back;
    sim_item *up = sim_item_new(ITEM_LINK_UP, dialer, 0);
    up->from = listener;
    up->connection = connection;
    sim_item_put(s, back, up);
    report_up(s, listener, dialer, connection);
}

static void item_link_up(sim_cluster *s, const sim_item *item) {
    sim_link *mine = &s->link[item->node][item->from];
    const sim_link *theirs = &s->link[item->from][item->node];
    if (mine->connection != item->connection || mine->up) return;
    mine->dialing = false;
    if (s->node[item->from].alive && theirs->up && theirs->connection == item->connection) {
        report_up(s, item->node, item->from, item->connection);
        return;
    }
    // its next incarnation may be linked already
    if (node_linked(s, item->node, &s->node[item->from].id) == SIM_MAX_NODES) report_down(s, item->node, &s->node[item->from].id, false);
}

static void item_link_down(sim_cluster *s, const sim_item *item) {
    sim_link *mine = &s->link[item->node][item->from];
    if (item->connection == 0) {
        mine->dialing = false;
        // the peer connected by itself, which is the answer
        if (node_linked(s, item->node, &item->id) != SIM_MAX_NODES) return;
    } else {
        if (!mine->up || mine->connection != item->connection) return;
        mine->up = false;
        mine->connection = 0;
    }
    report_down(s, item->node, &item->id, item->refused);
}

// Counts reordered messages. On one link a message overtakes only tensors; messages of several
// senders come in any order.
static void note_order(sim_cluster *s, const sim_item *item) {
    uint64_t *newest = &s->node[item->node].newest_sent_ns;
    s->stats->reordered += item->sent_ns < *newest;
    if (*newest < item->sent_ns) *newest = item->sent_ns;
}

static void item_message(sim_cluster *s, const sim_item *item) {
    const sim_link *mine = &s->link[item->node][item->from], *direction = &s->link[item->from][item->node];
    uint64_t arrived = item->arrived_ns ? item->arrived_ns : s->now;
    if (!mine->up || mine->connection != item->connection || arrived > direction->cut_ns[item->lane]) return;
    if (!message_decode(item->bytes, item->byte_count, &s->message)) {
        sim_fail(s, "%s sent %s a message that cannot be decoded", s->node[item->from].name, s->node[item->node].name);
        return;
    }
    uint8_t kind = s->message.kind;
    note_order(s, item);
    if (sim_mutant_loses(s, &s->message)) return;
    sim_crash_moment(s, item->node, SIM_BEFORE_MESSAGE, kind);
    if (!s->node[item->node].alive) return;
    sim_check_arrival(s, item->node, &s->message);
    event e = {.kind = EVENT_MESSAGE, .id = s->node[item->from].id, .msg = &s->message};
    if (item->payload) {
        e.blob = sim_blobs_add(&s->node[item->node].blobs, sim_buffer_hold(item->payload));
        e.blob_bytes = item->payload->bytes;
    }
    sim_trace_event(s, item->node, &e, item->from, item->sent_ns);
    sim_step(s, item->node, &e);
    if (kind == MESSAGE_COMMIT && message_decode(item->bytes, item->byte_count, &s->message)) sim_check_kept(s, item->node, &s->message);
    if (s->node[item->node].alive) sim_crash_moment(s, item->node, SIM_AFTER_MESSAGE, kind);
}

void sim_link_item(sim_cluster *s, sim_item *item) {
    switch (item->kind) {
    case ITEM_DIAL: item_dial(s, item); return;
    case ITEM_LINK_UP: item_link_up(s, item); return;
    case ITEM_LINK_DOWN: item_link_down(s, item); return;
    default: item_message(s, item); return;
    }
}
