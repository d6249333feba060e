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
    bool checking, good;
};

static braid_hash part_of_layer(const span_peer *p, uint32_t layer) { return p->model.layer[layer]; }

// --- the peer that is asked

static bool may_have(const span_peer *p, const session_known *k) {
    const span_fetch *f = p->fetch;
    if (!k->linked || k->suspected) return false;
    if (id_equal(&k->card.id, &p->config.join.leader)) return true;
    return k->card.serves && hash_equal(&k->card.model, &p->hash) &&
           (f->of_shape || (k->card.layer_begin <= f->number && f->number < k->card.layer_end));
}

// The peers with the part in turn; the origin, which has all parts, takes its turn as well.
static void choose_peer(span_peer *p) {
    span_fetch *f = p->fetch;
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

static void ask(span_peer *p) {
    span_fetch *f = p->fetch;
    uint64_t most = f->into.at ? f->into.bytes : 1;  // the first piece says how many there are
    while (f->has_from && f->asked < most && f->asked - f->got < (uint64_t)WINDOW * SESSION_MAX_PIECE) {
        session_message get = {.kind = SESSION_MESSAGE_GET_PIECE};
        get.get_piece = (session_message_get_piece){.part = f->part, .offset = f->asked, .count = SESSION_MAX_PIECE};
        span_send_message(p, &f->from, &get, 0);
        f->asked += SESSION_MAX_PIECE;
    }
}

static void ask_another(span_peer *p) {
    choose_peer(p);
    ask(p);
}

// --- the end of a part

static void take_shape(span_peer *p) {
    span_fetch *f = p->fetch;
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
    if (err) span_fail(p, &error);
    if (good && !err) p->config.file = f->file;
}

static void check_layer(uv_work_t *request) {
    span_peer *p = request->data;
    span_fetch *f = p->fetch;
    uint32_t first, end;
    span_model_layer(model_file_config(f->file), f->number, &first, &end);
    f->good = parts_set(f->file, first, end, f->into.at, f->into.bytes, NULL) == BRAID_OK &&
              span_model_same_layer(&p->model, f->file, f->number);
    if (!f->good) parts_clear(f->file, first, end);
}

static void refuse_layer(span_peer *p) {
    span_fetch *f = p->fetch;
    char from[9];
    stored_discard(&f->into);
    id_hex(f->from.bytes, 4, from);
    span_note(p, "layer %u from peer %s does not have its SHA-256; asking another peer", f->number, from);
    f->active = false;
    f->got = f->asked = 0;
    if (++f->refused < MOST_REFUSED) return;
    braid_error error;
    braid_fail(&error, BRAID_IDENTITY,
               "layer %u was received %d times with another SHA-256 than the swarm's; give the model's file (--model)",
               f->number, MOST_REFUSED);
    span_fail(p, &error);
}

static void layer_checked(uv_work_t *request, int status) {
    span_peer *p = request->data;
    span_fetch *f = p->fetch;
    braid_error error = {0};
    f->checking = false;
    if (status != 0 || p->phase != SPAN_RUNNING) return;
    if (!f->good) {
        refuse_layer(p);
        return;
    }
    f->refused = 0;
    f->fetched_bytes += f->got;
    if (stored_keep(&f->into, p->config.state_directory, &f->part, &error)) span_fail(p, &error);
    f->layer[f->number] = f->into;
    f->into = (stored){0};
    f->active = false;
    f->got = f->asked = 0;
    span_join_tick(p);
}

static void complete(span_peer *p) {
    span_fetch *f = p->fetch;
    if (f->of_shape) {
        take_shape(p);
        span_join_tick(p);
        return;
    }
    f->checking = true;
    f->check.data = p;
    uv_queue_work(&p->loop, &f->check, check_layer, layer_checked);
}

// --- pieces

static bool make_room(span_peer *p, uint64_t total) {
    span_fetch *f = p->fetch;
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
    if (err) span_fail(p, &error);
    return !err;
}

static void take_piece(span_peer *p, const braid_id *from, const session_message_piece *piece, const void *payload) {
    span_fetch *f = p->fetch;
    bool mine = f && f->active && !f->checking && f->has_from && id_equal(from, &f->from) &&
                hash_equal(&piece->part, &f->part);
    if (!mine) return;
    if (piece->total == 0 || !payload) {
        ask_another(p);
        return;
    }
    if (!f->into.at && !make_room(p, piece->total)) return;
    if (piece->offset != f->got || piece->total != f->into.bytes) return;  // asked twice, or another's idea of it
    memcpy(f->into.at + f->got, payload, piece->count);
    f->got += piece->count;
    f->progress_ns = clock_now_ns();
    if (f->got == f->into.bytes)
        complete(p);
    else
        ask(p);
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

static void answer_shape(span_peer *p, const braid_id *to, session_message *piece) {
    size_t length = 0;
    char *text = span_model_shape(p->config.file, &length);
    void *bytes = NULL;
    blob_id payload = 0;
    if (text && length <= SESSION_MAX_PIECE) bytes = blobs_add(p->blobs, length, &payload);
    if (bytes) {
        memcpy(bytes, text, length);
        piece->piece.total = piece->piece.count = (uint32_t)length;
    }
    free(text);
    span_send_message(p, to, piece, payload);
}

static void answer(span_peer *p, const braid_id *to, const session_message_get_piece *get) {
    session_message piece = {.kind = SESSION_MESSAGE_PIECE, .piece = {.part = get->part}};
    uint32_t first = 0, end = 0;
    blob_id payload = 0;
    if (p->config.file && hash_equal(&get->part, &p->model.shape) && get->offset == 0) {
        answer_shape(p, to, &piece);
        return;
    }
    uint64_t total = p->config.file ? part_bytes(p, &get->part, &first, &end) : 0;
    uint64_t count = get->offset < total ? total - get->offset : 0;
    if (count > get->count) count = get->count;
    void *bytes = count > 0 ? blobs_add(p->blobs, count, &payload) : NULL;
    if (bytes) {
        piece.piece =
            (session_message_piece){.part = get->part, .offset = get->offset, .total = total, .count = (uint32_t)count};
        parts_read(p->config.file, first, end, get->offset, count, bytes);
    }
    span_send_message(p, to, &piece, payload);
}

bool span_fetch_message(span_peer *p, const braid_id *from, const session_message *msg, const void *payload) {
    if (msg->kind == SESSION_MESSAGE_GET_PIECE)
        answer(p, from, &msg->get_piece);
    else if (msg->kind == SESSION_MESSAGE_PIECE)
        take_piece(p, from, &msg->piece, payload);
    else
        return false;
    return true;
}

// --- what is wanted

static void fail_memory(span_peer *p) {
    span_fail(p, &(braid_error){BRAID_MEMORY, "no memory to receive the model's layers"});
}

static bool open_fetch(span_peer *p) {
    if (p->fetch) return true;
    p->fetch = calloc(1, sizeof *p->fetch);
    if (p->fetch) p->fetch->layer = calloc(p->model.layers, sizeof *p->fetch->layer);
    if (p->fetch && p->fetch->layer) return true;
    fail_memory(p);
    return false;
}

static void begin_part(span_peer *p, bool of_shape, uint32_t number) {
    span_fetch *f = p->fetch;
    f->of_shape = of_shape;
    f->number = number;
    f->part = of_shape ? p->model.shape : part_of_layer(p, number);
    f->active = true;
    f->got = f->asked = 0;
    if (!of_shape && stored_find(&f->into, p->config.state_directory, &f->part)) {
        complete(p);
        return;
    }
    ask_another(p);
}

// A peer that is silent, or of which the link fell, is replaced.
static void go_on(span_peer *p) {
    const span_fetch *f = p->fetch;
    bool silent = clock_now_ns() - f->progress_ns > (uint64_t)SILENCE_MS * 1000000;
    if (!f->checking && (!f->has_from || silent)) ask_another(p);
}

bool span_fetch_shape(span_peer *p) {
    if (!open_fetch(p)) return false;
    if (p->fetch->file) return true;
    if (p->fetch->active)
        go_on(p);
    else
        begin_part(p, true, 0);
    return false;
}

bool span_fetch_layers(span_peer *p, uint32_t begin, uint32_t end) {
    span_fetch *f = p->fetch;
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

void span_fetch_keep(span_peer *p, uint32_t begin, uint32_t end) {
    char size[QUANTITY_TEXT];
    if (p->fetch->fetched_bytes > 0)
        span_note(p, "received %s of the model from other peers", quantity_size_text(p->fetch->fetched_bytes, size));
    else
        span_note(p, "the layers were kept in %s", p->config.state_directory);
    for (uint32_t i = 0; i < p->model.layers; i++)
        if ((i < begin || i >= end) && p->fetch->layer[i].at) drop_layer(p->fetch, i);
}

void span_fetch_free(span_fetch *f) {
    if (!f) return;
    for (uint32_t i = 0; f->file && i < model_file_config(f->file)->layers; i++) stored_close(&f->layer[i]);
    stored_close(&f->into);
    model_file_close(f->file);
    free(f->layer);
    free(f);
}
