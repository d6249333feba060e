// The layout of the messages: version, kind, body, in the order of message.h, except that a count
// precedes its entries.
#include "session/message.h"

#include "wire/codec.h"

#include <string.h>

static void code_session(codec *c, session_id *id) {
    codec_u64(c, &id->incarnation);
    codec_u64(c, &id->number);
}

static void code_tokens(codec *c, uint32_t *tokens) {
    codec_u32(c, tokens);
    codec_require(c, *tokens <= SESSION_MAX_TOKENS);
}

// Rows [position, position + count).
static void code_range(codec *c, uint32_t *position, uint32_t *count) {
    code_tokens(c, position);
    codec_u32(c, count);
    codec_require(c, *count <= SESSION_MAX_ROWS && *position + *count <= SESSION_MAX_TOKENS);
}

// A range of layers that is not empty.
static void code_layers(codec *c, uint16_t *begin, uint16_t *end) {
    codec_u16_below(c, begin, SESSION_MAX_LAYERS);
    codec_u16_below(c, end, SESSION_MAX_LAYERS + 1);
    codec_require(c, *begin < *end);
}

static void code_card(codec *c, session_card *card) {
    codec_id(c, &card->id);
    codec_u64(c, &card->incarnation);
    codec_u64(c, &card->version);
    codec_text(c, card->address, sizeof card->address);
    codec_bool(c, &card->serves);
    codec_bool(c, &card->draining);
    if (card->serves) {
        codec_hash(c, &card->model);
        codec_hash(c, &card->kernels);
        code_layers(c, &card->layer_begin, &card->layer_end);
        codec_u16_below(c, &card->layers, SESSION_MAX_LAYERS + 1);
        codec_require(c, card->layer_end <= card->layers);
        codec_u32(c, &card->cache_tokens);
        codec_u32(c, &card->free_tokens);
        codec_require(c, card->free_tokens <= card->cache_tokens);
        codec_u32(c, &card->layer_ns);
        codec_u32(c, &card->waiting_layers);
        codec_u32(c, &card->upload_kib_s);
        uint32_t adapters = codec_count16(c, &card->adapters, SESSION_MAX_ADAPTERS);
        for (uint32_t i = 0; i < adapters; i++) codec_u64(c, &card->adapter[i]);
    }
    uint32_t hops = codec_count16(c, &card->hops, SESSION_MAX_CARD_HOPS);
    for (uint32_t i = 0; i < hops; i++) {
        codec_u64(c, &card->hop[i].to);
        codec_u32(c, &card->hop[i].one_way_us);
        codec_require(c, card->hop[i].one_way_us <= WIRE_MAX_LINK_COST);
    }
}

static void code_cards(codec *c, session_message_cards *cards) {
    codec_u64(c, &cards->sent_ns);
    codec_u64(c, &cards->echo_ns);
    codec_u64(c, &cards->held_ns);
    uint32_t count = codec_count16(c, &cards->count, SESSION_MAX_CARDS);
    codec_require(c, count > 0);
    for (uint32_t i = 0; i < count && !c->failed; i++) code_card(c, &cards->card[i]);
}

static void code_key(codec *c, session_key *key) { codec_bytes(c, key->bytes, sizeof key->bytes); }

static void code_open(codec *c, session_message_open *open) {
    code_session(c, &open->session);
    codec_u32(c, &open->epoch);
    codec_require(c, open->epoch > 0);
    codec_hash(c, &open->model);
    codec_hash(c, &open->kernels);
    codec_u64(c, &open->adapter);
    code_layers(c, &open->layer_begin, &open->layer_end);
    code_tokens(c, &open->room);
    code_tokens(c, &open->tokens);
    codec_bool(c, &open->last);
    codec_id(c, &open->upstream);
    codec_id(c, &open->downstream);
    codec_text(c, open->upstream_address, sizeof open->upstream_address);
    codec_text(c, open->downstream_address, sizeof open->downstream_address);
    codec_bool(c, &open->has_donor);
    if (open->has_donor) codec_id(c, &open->donor);
    codec_u32(c, &open->cut);
    uint32_t keys = codec_count16(c, &open->keys, SESSION_MAX_KEYS);
    for (uint32_t i = 0; i < keys; i++) code_key(c, &open->key[i]);
}

static void code_opened(codec *c, session_message_opened *opened) {
    code_session(c, &opened->session);
    codec_u32(c, &opened->epoch);
    code_tokens(c, &opened->have);
    codec_bool(c, &opened->fetching);
}

static void code_refuse(codec *c, session_message_refuse *refuse) {
    code_session(c, &refuse->session);
    codec_u32(c, &refuse->epoch);
    codec_u8_below(c, &refuse->reason, SESSION_REFUSALS);
    codec_u32(c, &refuse->free_tokens);
}

static void code_ready(codec *c, session_message_ready *ready) {
    code_session(c, &ready->session);
    codec_u32(c, &ready->epoch);
    codec_bool(c, &ready->to_origin);
}

static void code_want(codec *c, session_message_want *want) {
    code_session(c, &want->session);
    codec_u32(c, &want->epoch);
    codec_u32(c, &want->ask);
    codec_u64(c, &want->incarnation);
    codec_u32(c, &want->cut);
    code_tokens(c, &want->from);
    codec_u32(c, &want->limit);
    codec_require(c, want->limit >= want->from);
    codec_bool(c, &want->to_origin);
}

static void code_rows(codec *c, session_message_rows *rows) {
    code_session(c, &rows->session);
    codec_u32(c, &rows->epoch);
    codec_u32(c, &rows->cut);
    code_range(c, &rows->position, &rows->count);
    code_tokens(c, &rows->home);
    codec_bool(c, &rows->to_origin);
}

static void code_lost(codec *c, session_message_lost *lost) {
    code_session(c, &lost->session);
    codec_u32(c, &lost->epoch);
    codec_id(c, &lost->peer);
}

static void code_close(codec *c, session_message_close *close) { code_session(c, &close->session); }

static void code_held(codec *c, session_message_held *held) {
    uint32_t count = codec_count16(c, &held->count, SESSION_MAX_HELD);
    for (uint32_t i = 0; i < count; i++) code_session(c, &held->session[i]);
}

static void code_kept(codec *c, session_message_kept *kept) {
    uint32_t count = codec_count16(c, &kept->count, SESSION_MAX_HELD);
    for (uint32_t i = 0; i < count; i++) {
        code_session(c, &kept->session[i]);
        codec_bool(c, &kept->keep[i]);
    }
}

static void code_probe(codec *c, session_message_probe *probe) {
    code_session(c, &probe->session);
    codec_u32(c, &probe->epoch);
}

static void code_status(codec *c, session_message_status *status) {
    code_session(c, &status->session);
    codec_u32(c, &status->epoch);
    code_tokens(c, &status->have);
    code_tokens(c, &status->next);
    code_tokens(c, &status->sent);
    codec_bool(c, &status->running);
    codec_bool(c, &status->fetching);
    codec_u32(c, &status->running_ms);
}

static void code_get_cache(codec *c, session_message_get_cache *get) {
    code_session(c, &get->session);
    code_range(c, &get->position, &get->count);
}

static void code_cuts(codec *c, session_cuts *cuts) {
    codec_u32(c, &cuts->now);
    codec_u32(c, &cuts->known_from);
    codec_require(c, cuts->known_from <= cuts->now);
    uint32_t count = codec_count16(c, &cuts->count, SESSION_CUTS), cut = cuts->known_from, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        codec_u32(c, &cuts->entry[i].cut);
        codec_u32(c, &cuts->entry[i].at);
        codec_require(c, cuts->entry[i].cut > cut && cuts->entry[i].cut <= cuts->now);
        codec_require(c, (i == 0 || cuts->entry[i].at > at) && cuts->entry[i].at <= SESSION_MAX_TOKENS);
        cut = cuts->entry[i].cut;
        at = cuts->entry[i].at;
    }
}

static void code_cache(codec *c, session_message_cache *cache) {
    code_session(c, &cache->session);
    code_layers(c, &cache->layer_begin, &cache->layer_end);
    code_cuts(c, &cache->cuts);
    code_tokens(c, &cache->home);
    code_range(c, &cache->position, &cache->count);
    code_tokens(c, &cache->total);
}

static void code_names(codec *c, session_message_names *names) {
    code_session(c, &names->session);
    codec_u32(c, &names->cut);
    code_tokens(c, &names->first);
    uint32_t count = codec_count16(c, &names->count, SESSION_MAX_NAMES);
    codec_require(c, count > 0);
    for (uint32_t i = 0; i < count; i++) code_key(c, &names->key[i]);
}

static void code_get_piece(codec *c, session_message_get_piece *get) {
    codec_hash(c, &get->part);
    codec_u64(c, &get->offset);
    codec_u32(c, &get->count);
    codec_require(c, get->count > 0 && get->count <= SESSION_MAX_PIECE);
}

static void code_piece(codec *c, session_message_piece *piece) {
    codec_hash(c, &piece->part);
    codec_u64(c, &piece->offset);
    codec_u64(c, &piece->total);
    codec_u32(c, &piece->count);
    codec_require(c, piece->count <= SESSION_MAX_PIECE && piece->offset <= piece->total &&
                         piece->count <= piece->total - piece->offset);
}

static void code_message(codec *c, session_message *msg) {
    uint8_t version = SESSION_VERSION, kind = (uint8_t)msg->kind;
    codec_u8(c, &version);
    codec_require(c, version == SESSION_VERSION);
    codec_u8_below(c, &kind, SESSION_MESSAGE_KINDS);
    if (c->failed) return;
    if (codec_reads(c)) msg->kind = kind;
    switch (kind) {
#define X(upper, lower) \
    case SESSION_MESSAGE_##upper: code_##lower(c, &msg->lower); break;
        SESSION_MESSAGES(X)
#undef X
    default: c->failed = true;
    }
}

const char *session_message_name(session_message_kind kind) {
    static const char *const names[] = {"none",
#define X(upper, lower) #upper,
                                        SESSION_MESSAGES(X)
#undef X
    };
    return (unsigned)kind < SESSION_MESSAGE_KINDS ? names[kind] : "unknown";
}

bool session_message_has_payload(const session_message *msg) {
    return (msg->kind == SESSION_MESSAGE_ROWS && msg->rows.count > 0) ||
           (msg->kind == SESSION_MESSAGE_CACHE && msg->cache.count > 0) ||
           (msg->kind == SESSION_MESSAGE_PIECE && msg->piece.count > 0);
}

size_t session_message_encode(const session_message *msg, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    // A writing cursor assigns nothing.
    code_message(&c, (session_message *)msg);
    return codec_written(&c);
}

bool session_message_decode(const uint8_t *bytes, size_t count, session_message *msg) {
    memset(msg, 0, sizeof *msg);
    if (count > SESSION_MAX_MESSAGE_BYTES) return false;
    codec c = codec_reader(bytes, count);
    code_message(&c, msg);
    return codec_finished(&c);
}
