#include "span/records.h"

#include "format/peer_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum record_kind {
    RECORD_API,
    RECORD_SERVING,
    RECORD_DRAINING,
    RECORD_UNLINKED,
    RECORD_EMPTY,
    RECORD_OTHER_KERNELS,
    RECORD_OTHER_MODEL,
    RECORD_KINDS
} record_kind;

// Constant parts of the records.
static const peer_state texts[RECORD_KINDS] = {
    [RECORD_API] = {.state = "api"},
    [RECORD_SERVING] = {.state = "serving"},
    [RECORD_DRAINING] = {.state = "draining",
                         .blocker = "it leaves in order",
                         .waits_for = "the end of its texts",
                         .next_step = "it ends"},
    [RECORD_UNLINKED] = {.state = "not linked",
                         .blocker = "this process has no link to it",
                         .waits_for = "the connection",
                         .next_step = "a link is opened when a text needs one"},
    [RECORD_EMPTY] = {.state = "without layers",
                      .blocker = "it holds no layers of the model",
                      .waits_for = "its file and a choice of layers",
                      .next_step = "it serves once its layers are loaded"},
    [RECORD_OTHER_KERNELS] = {.state = "other kernels",
                              .blocker = "its processor computes other bits than this process",
                              .next_step = "it takes no text of this API"},
    [RECORD_OTHER_MODEL] = {.state = "other model",
                            .blocker = "its file has other weights",
                            .next_step = "start it with the file of this API"},
};

typedef struct record {
    braid_id id;
    record_kind kind;
    uint64_t since_ns;
    char fell[RECORDS_REASON];  // why its last link fell
    bool serves, present, suspected;
    uint16_t layer_begin, layer_end;
} record;

struct span_records {
    record known[SESSION_MAX_PEERS];
    record gone[RECORDS_MAX_GONE];  // the oldest first
    uint32_t count, gone_count;
};

span_records *span_records_new(void) { return calloc(1, sizeof(span_records)); }
void span_records_free(span_records *r) { free(r); }

static record *find(span_records *r, const braid_id *id) {
    for (uint32_t i = 0; i < r->count; i++)
        if (id_equal(&r->known[i].id, id)) return &r->known[i];
    return NULL;
}

static const record *find_known(const span_records *r, const braid_id *id) {
    for (uint32_t i = 0; i < r->count; i++)
        if (id_equal(&r->known[i].id, id)) return &r->known[i];
    return NULL;
}

static record_kind kind_of(const session_known *k, bool self, const records_own *own) {
    const session_card *c = &k->card;
    if (self && own->origin) return RECORD_API;
    if (c->draining) return RECORD_DRAINING;
    if (!c->serves) return RECORD_EMPTY;
    if (!hash_equal(&c->model, &own->model)) return RECORD_OTHER_MODEL;
    if (!hash_equal(&c->kernels, &own->kernels)) return RECORD_OTHER_KERNELS;
    return k->linked || self ? RECORD_SERVING : RECORD_UNLINKED;
}

static void note_peer(span_records *r, const session_known *k, record_kind kind, uint64_t now_ns) {
    record *known = find(r, &k->card.id);
    if (!known) {
        if (r->count == SESSION_MAX_PEERS) return;
        known = &r->known[r->count++];
        *known = (record){.id = k->card.id, .kind = RECORD_KINDS};
    }
    if (known->kind != kind) known->since_ns = now_ns;
    known->kind = kind;
    known->present = true;
    known->suspected = k->suspected;
    known->serves = k->card.serves;
    known->layer_begin = k->card.layer_begin;
    known->layer_end = k->card.layer_end;
    if (k->linked) known->fell[0] = 0;
}

static void bury(span_records *r, const record *known, uint64_t now_ns) {
    if (r->gone_count == RECORDS_MAX_GONE) memmove(r->gone, r->gone + 1, --r->gone_count * sizeof *r->gone);
    r->gone[r->gone_count] = *known;
    r->gone[r->gone_count++].since_ns = now_ns;
}

void span_records_look(span_records *r, const session_view *view, const records_own *own, uint64_t now_ns) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->count; i++) r->known[i].present = false;
    for (uint32_t i = 0; i < view->count; i++)
        if (i == 0 || !view->peer[i].suspected || find(r, &view->peer[i].card.id))
            note_peer(r, &view->peer[i], kind_of(&view->peer[i], i == 0, own), now_ns);
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->known[i].present && !r->known[i].suspected)
            r->known[kept++] = r->known[i];
        else
            bury(r, &r->known[i], now_ns);
    }
    r->count = kept;
}

void span_records_fell(span_records *r, const braid_id *id, const char *reason) {
    record *known = find(r, id);
    if (known && reason && !*known->fell) snprintf(known->fell, sizeof known->fell, "%s", reason);
}

// ---- as JSON

static void put_state(json_out *o, const braid_id *id, const peer_state *of, uint64_t since_ns, uint64_t now_ns) {
    char hex[2 * BRAID_ID_BYTES + 1];
    peer_state s = *of;
    id_hex(id->bytes, BRAID_ID_BYTES, hex);
    s.id = hex;
    s.since_s = floor((double)(now_ns - since_ns) * 1e-9);
    peer_state_put(o, &s);
}

static void put_layers(json_out *o, bool serves, uint16_t begin, uint16_t end) {
    if (!serves) return;
    json_out_u64(o, "first_layer", begin);
    json_out_u64(o, "last_layer", end - 1u);
}

static void put_peer(const record *known, const session_known *k, json_out *o, uint64_t now_ns) {
    const session_card *c = &k->card;
    json_out_open(o, NULL, '{');
    put_state(o, &c->id, &texts[known->kind], known->since_ns, now_ns);
    json_out_string(o, "address", c->address);
    json_out_bool(o, "api", known->kind == RECORD_API);
    put_layers(o, c->serves, c->layer_begin, c->layer_end);
    if (c->serves) {
        json_out_u64(o, "cache_tokens", c->cache_tokens);
        json_out_u64(o, "free_tokens", c->free_tokens);
        json_out_double(o, "layer_us", c->layer_ns * 1e-3);
    }
    if (k->one_way_us) json_out_u64(o, "hop_us", k->one_way_us);
    json_out_close(o, '}');
}

static void put_gone(const record *g, json_out *o, uint64_t now_ns) {
    bool left = g->kind == RECORD_DRAINING;
    const char *reason = left ? "it left in order" : *g->fell ? g->fell : "it does not answer";
    const peer_state s = {.state = left ? "left" : "lost", .blocker = reason};
    json_out_open(o, NULL, '{');
    put_state(o, &g->id, &s, g->since_ns, now_ns);
    put_layers(o, g->serves, g->layer_begin, g->layer_end);
    json_out_close(o, '}');
}

void span_records_put(const span_records *r, const session_view *view, json_out *o, uint64_t now_ns) {
    json_out_open(o, "peers", '[');
    for (uint32_t i = 0; i < view->count; i++) {
        const record *known = find_known(r, &view->peer[i].card.id);
        if (known && (i == 0 || !view->peer[i].suspected)) put_peer(known, &view->peer[i], o, now_ns);
    }
    json_out_close(o, ']');
    json_out_open(o, "gone", '[');
    for (uint32_t i = r->gone_count; i > 0; i--) put_gone(&r->gone[i - 1], o, now_ns);
    json_out_close(o, ']');
}
