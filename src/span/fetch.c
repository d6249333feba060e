#include "span/fetch.h"

#include "base/sha256.h"
#include "format/hf_config.h"
#include "format/quantity.h"
#include "node/clock.h"
#include "span/inside.h"
#include "span/stored.h"
#include "weights/parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    WINDOW = 8,             // pieces on their way
    SILENCE_MS = 3000,      // until another peer is asked
    MOST_REFUSED = 4,       // wrong parts in a row
    MAX_SHAPE = 256 << 10,  // bytes of config.json
};

struct span_fetch {
    model_file *file;  // of the shape; NULL: not known yet
    stored *layer;     // [layers]
    bool active;       // a part is being fetched
    bool of_shape;
    uint32_t number;  // of the layer
    braid_hash part;
    stored into;
    uint64_t asked, got;
    braid_id from;
    uint32_t turn;  // of the choice of a peer
    bool has_from;
    uint64_t progress_ns;
    uint32_t refused;
    uint64_t fetched_bytes;
    uv_work_t check;
    braid_error error;
    void (*news)(span_peer *p);
    bool checking, good;
};

static braid_hash part_of_layer(const span_peer *p, uint32_t layer) { return p->model.layer[layer]; }

// --- the peer that is asked

static bool may_have(const span_peer *p, const session_known *k) {
    const span_fetch *f = p->layers.fetch;
    if (!k->linked || k->suspected) return false;
    if (id_equal(&k->card.id, &p->config.join.leader)) return true;
    return k->card.serves && hash_equal(&k->card.model, &p->hash) &&
           (f->of_shape || (k->card.layer_begin <= f->number && f->number < k->card.layer_end));
}

// The peers with the part in turn; the origin, which has all parts, takes its turn as well.
static void choose_peer(span_peer *p) {
    span_fetch *f = p->layers.fetch;
    session_view view;
    session_peer_view(p->core, &view);
    f->has_from = false;
    for (uint32_t n = 1; n < view.count && !f->has_from; n++) {
        uint32_t i = 1 + (f->turn + n) % (view.count - 1);
        if (!may_have(p, &view.peer[i])) continue;
        f->from = view.peer[i].card.id;
        f->has_from = true;
        f->turn = i;
    }
    f->asked = f->got;
    f->progress_ns = clock_now_ns();
}

bool span_fetch_next(span_peer *p, braid_id *to, session_message *get) {
    span_fetch *f = p->layers.fetch;
    if (!f || !f->active || f->checking || !f->has_from) return false;
    uint64_t most = f->into.at ? f->into.bytes : 1;  // the first piece says how many there are
    if (f->asked >= most || f->asked - f->got >= (uint64_t)WINDOW * SESSION_MAX_PIECE) return false;
    *to = f->from;
    *get = (session_message){.kind = SESSION_MESSAGE_GET_PIECE};
    get->get_piece = (session_message_get_piece){.part = f->part, .offset = f->asked, .count = SESSION_MAX_PIECE};
    f->asked += SESSION_MAX_PIECE;
    return true;
}

const braid_error *span_fetch_error(const span_peer *p) {
    const span_fetch *f = p->layers.fetch;
    return f && f->error.code ? &f->error : NULL;
}

// --- the end of a part

static void take_shape(span_peer *p) {
    span_fetch *f = p->layers.fetch;
    braid_error error = {0};
    model_config config;
    const braid_hash own = sha256_of(f->into.at, f->into.bytes);
    bool good = hash_equal(&own, &f->part);
    braid_err err = BRAID_OK;
    if (good) err = hf_config_read((const char *)f->into.at, f->into.bytes, "the swarm's model", &config, &error);
    if (good && !err) err = parts_new(&config, &f->file, &error);
    if (good && !err) err = span_model_check(&p->model, f->file, "the model received", 0, 0, false, &error);
    stored_close(&f->into);
    f->active = false;
    f->got = f->asked = 0;
    if (err) f->error = error;
    if (good && !err) p->config.file = f->file;
}

static void check_layer(uv_work_t *request) {
    span_peer *p = request->data;
    span_fetch *f = p->layers.fetch;
    uint32_t first, end;
    span_model_layer(model_file_config(f->file), f->number, &first, &end);
    f->good = parts_set(f->file, first, end, f->into.at, f->into.bytes, NULL) == BRAID_OK &&
              span_model_same_layer(&p->model, f->file, f->number);
    if (!f->good) parts_clear(f->file, first, end);
}

static void refuse_layer(span_peer *p) {
    span_fetch *f = p->layers.fetch;
    stored_discard(&f->into);
    f->active = false;
    f->got = f->asked = 0;
    if (++f->refused < MOST_REFUSED) return;
    braid_fail(&f->error, BRAID_IDENTITY,
               "layer %u was received %d times with another SHA-256 than the swarm's; give the model's file (--model)",
               f->number, MOST_REFUSED);
}

static void take_layer(span_peer *p) {
    span_fetch *f = p->layers.fetch;
    f->refused = 0;
    f->fetched_bytes += f->got;
    (void)stored_keep(&f->into, p->config.state_directory, &f->part, &f->error);
    f->layer[f->number] = f->into;
    f->into = (stored){0};
    f->active = false;
    f->got = f->asked = 0;
}

static void layer_checked(uv_work_t *request, int status) {
    span_peer *p = request->data;
    span_fetch *f = p->layers.fetch;
    f->checking = false;
    if (status != 0 || p->phase != SPAN_RUNNING) return;
    if (f->good)
        take_layer(p);
    else
        refuse_layer(p);
    f->news(p);
}

static void complete(span_peer *p) {
    span_fetch *f = p->layers.fetch;
    if (f->of_shape) {
        take_shape(p);
        return;
    }
    f->checking = true;
    f->check.data = p;
    uv_queue_work(&p->loop, &f->check, check_layer, layer_checked);
}

// --- pieces

static bool make_room(span_peer *p, uint64_t total) {
    span_fetch *f = p->layers.fetch;
    braid_error error = {0};
    char need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    uint64_t most = f->of_shape ? MAX_SHAPE : p->config.memory;
    braid_err err = BRAID_OK;
    if (total > most)
        err = braid_fail(&error, BRAID_LIMIT,
                         "one layer of this model needs %s, and this peer may use %s; give it more (--max-memory)",
                         quantity_size_text(total, need), quantity_size_text(most, have));
    if (!err) {
        const char *directory = f->of_shape ? NULL : p->config.state_directory;
        err = stored_new(&f->into, directory, &f->part, total, &error);
    }
    if (err) f->error = error;
    return !err;
}

static void take_piece(span_peer *p, const session_message_piece *piece, const void *payload) {
    span_fetch *f = p->layers.fetch;
    if (piece->total == 0 || !payload) {
        choose_peer(p);
        return;
    }
    if (!f->into.at && !make_room(p, piece->total)) return;
    if (piece->offset != f->got || piece->total != f->into.bytes) return;  // asked twice, or another's idea of it
    memcpy(f->into.at + f->got, payload, piece->count);
    f->got += piece->count;
    f->progress_ns = clock_now_ns();
    if (f->got == f->into.bytes) complete(p);
}

void span_fetch_piece(span_peer *p, const braid_id *from, const session_message_piece *piece, const void *payload) {
    span_fetch *f = p->layers.fetch;
    bool mine = f && f->active && !f->checking && f->has_from && id_equal(from, &f->from) &&
                hash_equal(&piece->part, &f->part);
    if (!mine) return;
    take_piece(p, piece, payload);
    f->news(p);
}

// The bytes of a part that this peer has; 0: none.
static uint64_t part_bytes(const span_peer *p, const braid_hash *part, uint32_t *first, uint32_t *end) {
    for (uint32_t i = 0; i < p->model.layers; i++) {
        const braid_hash own = part_of_layer(p, i);
        if (!hash_equal(&own, part)) continue;
        span_model_layer(model_file_config(p->config.file), i, first, end);
        return parts_has(p->config.file, *first, *end) ? parts_bytes(p->config.file, *first, *end) : 0;
    }
    return 0;
}

static blob_id answer_shape(span_peer *p, session_message_piece *piece) {
    size_t length = 0;
    char *text = span_model_shape(p->config.file, &length);
    void *bytes = NULL;
    blob_id payload = 0;
    if (text && length <= SESSION_MAX_PIECE) bytes = blobs_add(p->blobs, length, &payload);
    if (bytes) {
        memcpy(bytes, text, length);
        piece->total = piece->count = (uint32_t)length;
    }
    free(text);
    return payload;
}

blob_id span_fetch_answer(span_peer *p, const session_message_get_piece *get, session_message *piece) {
    uint32_t first = 0, end = 0;
    blob_id payload = 0;
    *piece = (session_message){.kind = SESSION_MESSAGE_PIECE, .piece = {.part = get->part}};
    if (p->config.file && hash_equal(&get->part, &p->model.shape) && get->offset == 0)
        return answer_shape(p, &piece->piece);
    uint64_t total = p->config.file ? part_bytes(p, &get->part, &first, &end) : 0;
    uint64_t count = get->offset < total ? total - get->offset : 0;
    if (count > get->count) count = get->count;
    void *bytes = count > 0 ? blobs_add(p->blobs, count, &payload) : NULL;
    if (!bytes) return 0;
    piece->piece =
        (session_message_piece){.part = get->part, .offset = get->offset, .total = total, .count = (uint32_t)count};
    parts_read(p->config.file, first, end, get->offset, count, bytes);
    return payload;
}

// --- what is wanted

bool span_fetch_open(span_peer *p, void (*news)(span_peer *p)) {
    span_fetch *f = p->layers.fetch;
    if (f) return true;
    f = p->layers.fetch = calloc(1, sizeof *f);
    if (f) f->layer = calloc(p->model.layers, sizeof *f->layer);
    if (f) f->news = news;
    return f && f->layer;
}

static void begin_part(span_peer *p, bool of_shape, uint32_t number) {
    span_fetch *f = p->layers.fetch;
    f->of_shape = of_shape;
    f->number = number;
    f->part = of_shape ? p->model.shape : part_of_layer(p, number);
    f->active = true;
    f->got = f->asked = 0;
    if (!of_shape && stored_find(&f->into, p->config.state_directory, &f->part)) {
        complete(p);
        return;
    }
    choose_peer(p);
}

// A peer that is silent, or of which the link fell, is replaced.
static void go_on(span_peer *p) {
    const span_fetch *f = p->layers.fetch;
    bool silent = clock_now_ns() - f->progress_ns > (uint64_t)SILENCE_MS * 1000000;
    if (!f->checking && (!f->has_from || silent)) choose_peer(p);
}

bool span_fetch_shape(span_peer *p) {
    if (p->layers.fetch->file) return true;
    if (p->layers.fetch->active)
        go_on(p);
    else
        begin_part(p, true, 0);
    return false;
}

bool span_fetch_layers(span_peer *p, uint32_t begin, uint32_t end) {
    span_fetch *f = p->layers.fetch;
    for (uint32_t i = begin; i < end; i++) {
        if (f->layer[i].at) continue;
        if (f->active)
            go_on(p);
        else
            begin_part(p, false, i);
        return false;
    }
    return true;
}

static void drop_layer(span_fetch *f, uint32_t i) {
    uint32_t first, last;
    span_model_layer(model_file_config(f->file), i, &first, &last);
    parts_clear(f->file, first, last);
    stored_close(&f->layer[i]);
}

uint64_t span_fetch_keep(span_peer *p, uint32_t begin, uint32_t end) {
    span_fetch *f = p->layers.fetch;
    for (uint32_t i = 0; i < p->model.layers; i++)
        if ((i < begin || i >= end) && f->layer[i].at) drop_layer(f, i);
    return f->fetched_bytes;
}

void span_fetch_free(span_fetch *f) {
    if (!f) return;
    for (uint32_t i = 0; f->file && i < model_file_config(f->file)->layers; i++) stored_close(&f->layer[i]);
    stored_close(&f->into);
    model_file_close(f->file);
    free(f->layer);
    free(f);
}
