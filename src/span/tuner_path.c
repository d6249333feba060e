// The path of a client's microbatches: which peers compute, and what each is asked. The client has
// the input of each peer, and computes a microbatch again after any failure. So its result does not
// depend on which peers computed it.
#include "node/clock.h"
#include "span/inside.h"
#include "span/tuner_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MILLISECOND = 1000000;
enum { AVOID_MS = 3000, AVOID_OTHERS_MS = 3600000, NAME_BYTES = 4 };

static void go_on(tuner *t);

static size_t row_bytes(const tuner *t) { return t->dim * sizeof(float); }

static void fail(tuner *t, braid_err code, const char *text) {
    braid_error error;
    braid_fail(&error, code, "%s", text);
    t->computing = false;
    tuner_done(t, &error);
}

// --- the choice of peers

static bool is_avoided(const tuner *t, const braid_id *id, uint64_t now) {
    for (uint32_t i = 0; i < TUNER_MAX_AVOIDED; i++)
        if (t->avoided[i].until_ns > now && id_equal(&t->avoided[i].id, id)) return true;
    return false;
}

static void avoid(tuner *t, const braid_id *id, uint64_t ms) {
    t->avoided[t->avoid_next++ % TUNER_MAX_AVOIDED] = (tuner_avoided){*id, clock_now_ns() + ms * MILLISECOND};
}

static bool is_usable(const tuner *t, const session_known *k) {
    const session_card *c = &k->card;
    return c->serves && !c->draining && !k->suspected && k->linked && hash_equal(&c->model, &t->peer->hash);
}

// Longer reach first; of equals the shorter queue, then an order that differs between clients.
static bool is_better(const tuner *t, const session_card *a, const session_card *b) {
    if (!b) return true;
    if (a->layer_end != b->layer_end) return a->layer_end > b->layer_end;
    if (a->waiting_layers != b->waiting_layers) return a->waiting_layers < b->waiting_layers;
    braid_id own = identity_id(t->config.identity);
    for (size_t i = 0; i < sizeof own.bytes; i++) {
        uint8_t x = a->id.bytes[i] ^ own.bytes[i], y = b->id.bytes[i] ^ own.bytes[i];
        if (x != y) return x < y;
    }
    return false;
}

static const session_card *choose(const tuner *t, const session_view *view, uint32_t layer) {
    const session_card *best = NULL;
    uint64_t now = clock_now_ns();
    for (uint32_t i = 0; i < view->count; i++) {
        const session_card *c = &view->peer[i].card;
        bool covers = is_usable(t, &view->peer[i]) && c->layer_begin <= layer && c->layer_end > layer;
        if (covers && !is_avoided(t, &c->id, now) && is_better(t, c, best)) best = c;
    }
    return best;
}

static void forget_hop(tuner *t, tuner_hop *h) {
    if (h->adapted && net_linked(t->peer->net, &h->id))
        tuning_send(t->peer, &h->id,
                    &(tuning_message){.kind = TUNING_FORGET, .name = {h->session, ++t->serial}, .forget.done = true},
                    0);
    h->adapted = false;
}

static void forget_path(tuner *t) {
    for (uint32_t i = 0; i < t->hops; i++) forget_hop(t, &t->hop[i]);
    t->hops = 0;
}

// Peers that are not linked are dialed, for the next attempt.
static void dial_all(const tuner *t, const session_view *view) {
    for (uint32_t i = 1; i < view->count; i++) {
        const session_known *k = &view->peer[i];
        if (k->card.serves && !k->linked && k->card.address[0])
            (void)net_dial(t->peer->net, &k->card.id, k->card.address, NULL);
    }
}

// False: some layer is on no usable peer, *missing.
static bool choose_path(tuner *t, uint32_t *missing) {
    session_view view = {.count = 0};
    uint32_t layer = 0;
    session_peer_view(t->peer->core, &view);
    t->hops = 0;
    while (layer < t->layers) {
        const session_card *c = t->hops < TUNER_MAX_HOPS ? choose(t, &view, layer) : NULL;
        *missing = layer;
        if (!c) break;
        tuner_hop *h = &t->hop[t->hops];
        uint32_t end = c->layer_end < t->layers ? c->layer_end : t->layers;
        *h = (tuner_hop){.id = c->id, .begin = layer, .end = end, .x = h->x};
        if (!h->x) h->x = malloc(t->rows * row_bytes(t));
        if (!h->x) break;
        t->hops++;
        layer = end;
    }
    if (layer < t->layers) t->hops = 0;
    dial_all(t, &view);
    return t->hops > 0;
}

static bool has_path(tuner *t) {
    uint32_t missing = 0;
    if (t->hops > 0) return true;
    if (choose_path(t, &missing)) {
        t->waits_ns = 0;
        return true;
    }
    uint64_t now = clock_now_ns();
    if (!t->waits_ns) t->waits_ns = now;
    if (now - t->waits_ns < t->config.wait_ns) return false;
    char text[SPAN_MAX_NOTE];
    snprintf(text, sizeof text, "no peer of the swarm computes layer %u for an adapter%s%s", missing,
             t->refused[0] ? ": " : "", t->refused);
    t->waits_ns = 0;
    fail(t, BRAID_NETWORK, text);
    return false;
}

// --- requests

static void count_bytes(tuner *t, uint64_t sent, uint64_t received) {
    pthread_mutex_lock(&t->lock);
    t->counts.sent_bytes += sent;
    t->counts.received_bytes += received;
    pthread_mutex_unlock(&t->lock);
}

static char *payload_new(tuner *t, uint64_t bytes, blob_id *blob) {
    char *data = blobs_add(t->peer->blobs, bytes, blob);
    if (!data) fail(t, BRAID_MEMORY, "no memory for a microbatch");
    return data;
}

static bool send_adapter(tuner *t, tuner_hop *h) {
    size_t count = (h->end - h->begin) * t->layer_parameters;
    blob_id blob;
    char *data = payload_new(t, count * sizeof(float), &blob);
    if (!data) return false;
    memcpy(data, t->parameters + h->begin * t->layer_parameters, count * sizeof(float));
    h->session = ++t->sessions;
    h->adapted = true;
    const tuning_message msg = {.kind = TUNING_ADAPT,
                                .name = {h->session, ++t->serial},
                                .adapt = {.layer_begin = (uint16_t)h->begin,
                                          .layer_end = (uint16_t)h->end,
                                          .rank = t->adapter.rank,
                                          .alpha = t->adapter.alpha,
                                          .rank_stabilised = t->adapter.rank_stabilised,
                                          .roles = t->adapter.roles,
                                          .sequences = t->sequences,
                                          .tokens = t->tokens,
                                          .parameters = (uint32_t)count,
                                          .kernels = t->kernels}};
    tuning_send(t->peer, &h->id, &msg, blob);
    count_bytes(t, count * sizeof(float), 0);
    return true;
}

static void send_forward(tuner *t, const tuner_hop *h) {
    size_t documents = t->rows * sizeof *t->documents, x = t->rows * row_bytes(t);
    blob_id blob;
    char *data = payload_new(t, documents + x, &blob);
    if (!data) return;
    memcpy(data, t->documents, documents);
    memcpy(data + documents, h->x, x);
    tuning_send(
        t->peer, &h->id,
        &(tuning_message){.kind = TUNING_FORWARD, .name = {h->session, ++t->serial}, .forward.keep = t->request.keep},
        blob);
    count_bytes(t, documents + x, 0);
}

static void send_backward(tuner *t, const tuner_hop *h) {
    size_t bytes = t->rows * row_bytes(t);
    blob_id blob;
    char *data = payload_new(t, bytes, &blob);
    if (!data) return;
    memcpy(data, t->dy, bytes);
    tuning_send(t->peer, &h->id,
                &(tuning_message){
                    .kind = TUNING_BACKWARD, .name = {h->session, ++t->serial}, .backward.rows = (uint32_t)t->rows},
                blob);
    count_bytes(t, bytes, 0);
}

// --- the order of hops

static void ask_hop(tuner *t) {
    tuner_hop *h = &t->hop[t->at];
    if (t->back) {
        send_backward(t, h);
        return;
    }
    if (h->adapted || send_adapter(t, h)) send_forward(t, h);
}

static void start_back(tuner *t) {
    t->back = true;
    t->at = t->hops - 1;
    memcpy(t->dy, t->request.dy, t->rows * row_bytes(t));
    ask_hop(t);
}

static void start_forward(tuner *t) {
    t->back = false;
    t->at = 0;
    memcpy(t->hop[0].x, t->x, t->rows * row_bytes(t));
    ask_hop(t);
}

// Begins the request, when there is a path.
static void go_on(tuner *t) {
    bool went = t->hops > 0;  // forward, with this path
    if (!has_path(t)) return;
    t->computing = true;
    if (t->request.kind == TUNER_BACKWARD && went)
        start_back(t);
    else
        start_forward(t);
}

void tuner_begin(tuner *t) {
    if (t->request.kind == TUNER_END) {
        forget_path(t);
        tuner_done(t, NULL);
        return;
    }
    go_on(t);
}

static bool is_under_way(tuner *t) {
    pthread_mutex_lock(&t->lock);
    bool taken = t->request.state == TUNER_TAKEN;
    pthread_mutex_unlock(&t->lock);
    return taken;
}

void tuner_stop(tuner *t) {
    if (!is_under_way(t)) return;
    forget_path(t);
    t->waits_ns = 0;
    fail(t, BRAID_STATE, "tuning was stopped");
}

static void count_again(tuner *t) {
    pthread_mutex_lock(&t->lock);
    t->counts.redone++;
    pthread_mutex_unlock(&t->lock);
}

// The microbatch is computed again from its beginning. The first peers may be the same; they get the
// adapter again.
static void lose(tuner *t, const braid_id *id, uint64_t avoid_ms, const char *why) {
    char name[2 * NAME_BYTES + 1], text[SPAN_MAX_NOTE];
    id_hex(id->bytes, NAME_BYTES, name);
    snprintf(text, sizeof text, "peer %s is replaced: %s", name, why);
    if (t->config.note) t->config.note(t->config.context, text);
    avoid(t, id, avoid_ms);
    forget_path(t);
    if (t->computing) count_again(t);
    t->computing = false;
    if (is_under_way(t)) go_on(t);
}

static tuner_hop *hop_of(tuner *t, const braid_id *id) {
    for (uint32_t i = 0; i < t->hops; i++)
        if (id_equal(&t->hop[i].id, id)) return &t->hop[i];
    return NULL;
}

void tuner_link_down(tuner *t, const braid_id *id) {
    if (hop_of(t, id)) lose(t, id, AVOID_MS, "its link is down");
}

void tuner_tick(tuner *t) {
    session_view view = {.count = 0};
    if (t->hops == 0) {
        if (is_under_way(t)) go_on(t);
        return;
    }
    session_peer_view(t->peer->core, &view);
    for (uint32_t i = 1; i < view.count; i++) {
        const session_known *k = &view.peer[i];
        if (!k->suspected || !hop_of(t, &k->card.id)) continue;
        lose(t, &k->card.id, AVOID_MS, "it is silent");
        return;
    }
}

// --- answers

static bool is_expected(tuner *t, const braid_id *from, const tuning_message *msg) {
    const tuner_hop *h = &t->hop[t->at];
    bool kind = msg->kind == (t->back ? TUNING_GRADIENT : TUNING_OUTPUT);
    return t->computing && t->hops > 0 && kind && id_equal(&h->id, from) && msg->name.session == h->session &&
           msg->name.serial == t->serial;
}

uint64_t tuner_payload(tuner *t, const braid_id *from, const tuning_message *msg) {
    uint64_t rows = t->rows * row_bytes(t);
    const tuner_hop *h = &t->hop[t->at];
    if (!is_expected(t, from, msg)) return 0;
    return msg->kind == TUNING_OUTPUT ? rows : rows + (h->end - h->begin) * t->layer_parameters * sizeof(float);
}

static void take_output(tuner *t, const void *y) {
    size_t bytes = t->rows * row_bytes(t);
    t->at++;
    if (t->at < t->hops) {
        memcpy(t->hop[t->at].x, y, bytes);
        ask_hop(t);
    } else if (t->request.kind == TUNER_BACKWARD) {
        start_back(t);
    } else {
        memcpy(t->request.out, y, bytes);
        t->computing = false;
        tuner_done(t, NULL);
    }
}

static void take_gradient(tuner *t, const float *values) {
    const tuner_hop *h = &t->hop[t->at];
    size_t numbers = t->rows * t->dim;
    memcpy(t->dy, values, numbers * sizeof *values);
    memcpy(t->scratch + h->begin * t->layer_parameters, values + numbers,
           (h->end - h->begin) * t->layer_parameters * sizeof *values);
    if (t->at > 0) {
        t->at--;
        ask_hop(t);
        return;
    }
    t->computing = false;
    tuner_done(t, NULL);
}

static void take_refusal(tuner *t, const braid_id *from, const tuning_message *msg) {
    tuner_hop *h = hop_of(t, from);
    const tuning_refuse *r = &msg->refuse;
    if (!h || h->session != msg->name.session) return;
    snprintf(t->refused, sizeof t->refused, "%s", r->text);
    h->adapted = false;  // it has forgotten it
    if (r->reason == TUNING_MALFORMED && is_under_way(t)) {
        char text[SPAN_MAX_NOTE];
        snprintf(text, sizeof text, "a peer of the swarm refuses the adapter: %s", r->text);
        forget_path(t);
        fail(t, BRAID_CONFIG, text);
        return;
    }
    lose(t, from, r->reason == TUNING_OTHER ? AVOID_OTHERS_MS : AVOID_MS, r->text);
}

void tuner_receive(tuner *t, const braid_id *from, const tuning_message *msg, const void *payload) {
    if (msg->kind == TUNING_REFUSE) {
        take_refusal(t, from, msg);
        return;
    }
    uint64_t bytes = tuner_payload(t, from, msg);
    if (bytes == 0) return;
    count_bytes(t, 0, bytes);
    if (msg->kind == TUNING_OUTPUT)
        take_output(t, payload);
    else
        take_gradient(t, payload);
}
