// A serving peer among hostile ones: whatever well-formed messages come, in whatever order, it must
// not trip an assertion of its own, and its effects must keep the rules of session/session.h.
//
// An input is a sequence of acts, each a byte and its operands (see `act`). Peer 1 is the peer itself.
#include "fuzz.h"

#include "session/session.h"
#include "session_random.h"

enum { ACT_TICK, ACT_UP, ACT_DOWN, ACT_MESSAGE, ACT_DONE, ACT_STEP, ACT_END, ACT_OTHER, ACT_NEIGHBOUR, ACTS };
enum { PEERS = 5, SLOTS = 3, OWN = 2, BLOBS = 256, MOST_EFFECTS = 100000 };

typedef struct host {
    session_peer *peer;
    uint64_t now;
    bool blob[BLOBS];  // held by the peer
    uint64_t job[SLOTS];
    bool adopts[SLOTS];
    uint32_t adopt_most[SLOTS];
    session_blob job_blob[SLOTS];
    uint32_t length[SLOTS];
    uint32_t tokens[OWN + 2];
    session_message_open open;  // the newest OPEN
} host;

typedef struct reader {
    const uint8_t *data;
    size_t left;
} reader;

static uint8_t next_byte(reader *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->data++;
}

static braid_id id_of(uint32_t peer) { return (braid_id){{(uint8_t)(1 + peer % PEERS)}}; }

static void give_back(host *h, session_blob blob) {
    FUZZ_CHECK(blob > 0 && blob <= BLOBS && h->blob[blob - 1]);
    for (uint32_t s = 0; s < SLOTS; s++) FUZZ_CHECK(h->job[s] == 0 || h->job_blob[s] != blob);
    h->blob[blob - 1] = false;
}

static void begin_job(host *h, const session_effect *e) {
    FUZZ_CHECK(e->slot < SLOTS && h->job[e->slot] == 0 && e->ticket != 0);
    FUZZ_CHECK(e->blob > 0 && e->blob <= BLOBS && h->blob[e->blob - 1]);
    FUZZ_CHECK(e->position <= h->length[e->slot] && e->count > 0);
    h->job[e->slot] = e->ticket;
    h->job_blob[e->slot] = e->blob;
    h->length[e->slot] = e->position + e->count;
}

// Pages of three tokens.
static void begin_adopting(host *h, const session_effect *e) {
    FUZZ_CHECK(e->slot < SLOTS && h->job[e->slot] == 0 && e->ticket != 0);
    FUZZ_CHECK(h->length[e->slot] == 0 && e->count > 0 && e->count <= SESSION_MAX_KEYS && e->keys);
    h->job[e->slot] = e->ticket;
    h->job_blob[e->slot] = 0;
    h->adopts[e->slot] = true;
    h->adopt_most[e->slot] = 3 * e->count < e->limit ? 3 * e->count : e->limit;
}

static void do_effect(host *h, const session_effect *e) {
    static session_message sent;
    switch (e->kind) {
    case SESSION_EFFECT_SEND:
        FUZZ_CHECK(session_message_decode(e->bytes, e->byte_count, &sent));
        FUZZ_CHECK(session_message_has_payload(&sent) == (e->source != SESSION_SOURCE_NONE));
        if (e->source == SESSION_SOURCE_TOKENS) FUZZ_CHECK(e->position + e->count <= h->tokens[e->number % (OWN + 2)]);
        if (e->source == SESSION_SOURCE_KEPT || e->source == SESSION_SOURCE_CACHE)
            FUZZ_CHECK(e->slot < SLOTS && e->position + e->count <= h->length[e->slot]);
        break;
    case SESSION_EFFECT_RUN:
    case SESSION_EFFECT_IMPORT: begin_job(h, e); break;
    case SESSION_EFFECT_ADOPT: begin_adopting(h, e); break;
    case SESSION_EFFECT_NAME:
        FUZZ_CHECK(e->slot < SLOTS && e->keys && e->count > 0 && e->count <= SESSION_MAX_NAMES);
        FUZZ_CHECK(e->limit <= h->length[e->slot]);
        break;
    case SESSION_EFFECT_FREE:
        FUZZ_CHECK(e->slot < SLOTS && h->job[e->slot] == 0);
        h->length[e->slot] = 0;
        break;
    case SESSION_EFFECT_RELEASE:
    case SESSION_EFFECT_OUTPUT: give_back(h, e->blob); break;
    default: break;
    }
}

static void step(host *h, const session_event *e) {
    session_step(h->peer, h->now, e);
    session_effect effect;
    uint32_t effects = 0;
    while (session_next_effect(h->peer, &effect)) {
        do_effect(h, &effect);
        FUZZ_CHECK(++effects < MOST_EFFECTS);
    }
}

static session_blob new_blob(host *h) {
    for (uint32_t b = 0; b < BLOBS; b++) {
        if (h->blob[b]) continue;
        h->blob[b] = true;
        return b + 1;
    }
    return 0;
}

static void message_act(host *h, reader *in) {
    static session_message msg;
    uint8_t from = next_byte(in);
    size_t count = next_byte(in);
    count |= (size_t)next_byte(in) << 8;
    if (count > in->left) count = in->left;
    bool good = session_message_decode(in->data, count, &msg);
    in->data += count;
    in->left -= count;
    if (!good) return;
    if (msg.kind == SESSION_MESSAGE_OPEN) h->open = msg.open;
    session_blob blob = session_message_has_payload(&msg) && from < 0xf0 ? new_blob(h) : 0;
    step(h, &(session_event){.kind = SESSION_EVENT_MESSAGE, .id = id_of(from), .msg = &msg, .blob = blob});
}

// A message as a neighbour in the path of the newest OPEN would send it, or nearly so.
static void neighbour_act(host *h, reader *in) {
    const session_message_open *open = &h->open;
    uint8_t what = next_byte(in), a = next_byte(in), b = next_byte(in);
    uint32_t near = a < 0x60 ? 0 : a % 32u;
    session_message msg = {0};
    braid_id from = open->upstream;
    uint32_t epoch = open->epoch + (what > 0xf0);
    switch (what % 4) {
    case 0:
        from = open->downstream;
        msg.kind = SESSION_MESSAGE_WANT;
        msg.want = (session_message_want){
            .session = open->session, .epoch = epoch, .ask = b / 16u, .cut = b % 3u, .from = near, .limit = near + b};
        break;
    case 1:
        from = open->donor;
        msg.kind = SESSION_MESSAGE_CACHE;
        msg.cache = (session_message_cache){.session = open->session,
                                            .layer_begin = open->layer_begin,
                                            .layer_end = open->layer_end,
                                            .position = near,
                                            .count = b % 4u,
                                            .total = 12};
        break;
    default:
        msg.kind = SESSION_MESSAGE_ROWS;
        msg.rows = (session_message_rows){.session = open->session,
                                          .epoch = epoch,
                                          .cut = b % 3u,
                                          .position = near,
                                          .count = b % 25u,
                                          .home = b / 16u};
    }
    session_blob blob = session_message_has_payload(&msg) ? new_blob(h) : 0;
    step(h, &(session_event){.kind = SESSION_EVENT_MESSAGE, .id = from, .msg = &msg, .blob = blob});
}

static void done_act(host *h, uint8_t operand) {
    uint32_t s = operand % SLOTS;
    if (h->job[s] == 0) return;
    session_event e = {.kind = SESSION_EVENT_DONE, .slot = s, .ticket = h->job[s], .failed = operand > 0xe0};
    h->job[s] = 0;
    if (h->adopts[s] && !e.failed) e.count = h->length[s] = operand / SLOTS % (h->adopt_most[s] + 1);
    h->adopts[s] = false;
    step(h, &e);
}

static void step_act(host *h, reader *in) {
    uint64_t number = next_byte(in) % (OWN + 2);
    session_own_view own;
    session_look_own(h->peer, number, &own);
    if (!own.exists) {
        static const session_key keys[2];
        session_open open = {.layers = 4, .room = 20, .keys = keys, .key_count = (uint16_t)(number % 3)};
        h->tokens[number] = 0;
        step(h, &(session_event){.kind = SESSION_EVENT_OPEN, .number = number, .open = &open});
        return;
    }
    uint32_t position = next_byte(in) % (own.length + 1), count = 1 + next_byte(in) % 8;
    h->tokens[number] = position + count;
    step(h, &(session_event){.kind = SESSION_EVENT_STEP,
                             .number = number,
                             .position = position,
                             .count = count,
                             .home = position + next_byte(in) % count});
}

static void other_act(host *h, reader *in) {
    session_span span = {.layer_end = 4, .layers = 4, .cache_tokens = 60, .row_bytes = 8, .token_layer_bytes = 1};
    uint8_t what = next_byte(in);
    if (what % 8 == 0)
        step(h, &(session_event){.kind = SESSION_EVENT_SPAN, .span = what < 128 ? &span : NULL});
    else if (what % 8 == 1)
        step(h, &(session_event){.kind = SESSION_EVENT_DRAIN});
    else if (what % 8 == 2)
        step(h, &(session_event){.kind = SESSION_EVENT_REROUTE, .number = what / 8 % 4});
    else
        step(h, &(session_event){.kind = SESSION_EVENT_JOIN, .id = id_of(what), .address = "host:1"});
}

static void act(host *h, reader *in) {
    switch (next_byte(in) % ACTS) {
    case ACT_TICK:
        h->now += (uint64_t)1000000 << next_byte(in) % 15;
        step(h, &(session_event){.kind = SESSION_EVENT_TICK});
        break;
    case ACT_UP: step(h, &(session_event){.kind = SESSION_EVENT_LINK_UP, .id = id_of(next_byte(in))}); break;
    case ACT_DOWN: {
        uint8_t operand = next_byte(in);
        step(h, &(session_event){.kind = SESSION_EVENT_LINK_DOWN, .id = id_of(operand), .refused = operand > 127});
        break;
    }
    case ACT_MESSAGE: message_act(h, in); break;
    case ACT_DONE: done_act(h, next_byte(in)); break;
    case ACT_STEP: step_act(h, in); break;
    case ACT_END: step(h, &(session_event){.kind = SESSION_EVENT_END, .number = next_byte(in) % (OWN + 2)}); break;
    case ACT_NEIGHBOUR: neighbour_act(h, in); break;
    default: other_act(h, in);
    }
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static session_message msg;
    static uint8_t encoded[SESSION_MAX_MESSAGE_BYTES];
    rng r = {rng_seed(47, number)};
    session_random w = {.r = &r, .small = true};
    size_t at = 0, acts = 1 + rng_below(&r, 80);
    for (uint8_t peer = 1; peer < PEERS; peer++) {
        bytes[at++] = ACT_UP;
        bytes[at++] = peer;
    }
    for (size_t k = 0; k < acts && at + sizeof encoded + 8 < capacity; k++) {
        uint8_t what = (uint8_t)rng_below(&r, ACTS);
        bytes[at++] = what;
        if (what != ACT_MESSAGE) {
            uint32_t operands = what == ACT_STEP ? 4 : what == ACT_NEIGHBOUR ? 3 : 1;
            for (uint32_t i = 0; i < operands; i++) bytes[at++] = (uint8_t)rng_next(&r);
            continue;
        }
        bool opens = rng_below(&r, 4) == 0;
        session_message_kind kind = opens ? SESSION_MESSAGE_OPEN
                                          : (session_message_kind)(1 + rng_below(&r, SESSION_MESSAGE_KINDS - 1));
        session_random_message(&w, kind, &msg);
        if (opens) {
            msg.open.layer_begin = 0;
            msg.open.layer_end = 4;
            msg.open.room = 30;
        }
        size_t count = session_message_encode(&msg, encoded, sizeof encoded);
        bytes[at++] = (uint8_t)rng_next(&r);
        bytes[at++] = (uint8_t)count;
        bytes[at++] = (uint8_t)(count >> 8);
        memcpy(bytes + at, encoded, count);
        at += count;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static host h;
    session_config config = {
        .self = id_of(0),
        .address = "host:0",
        .incarnation = 1,
        .version = 1,
        .serves = true,
        .span = {.layer_end = 4, .layers = 4, .cache_tokens = 60, .row_bytes = 8, .token_layer_bytes = 1},
        .slots = SLOTS,
        .own = OWN,
        .kept_bytes = 100,
        .chunk_rows = 4,
        .window_rows = 8,
        .cache_chunk = 3};
    size_t bytes = session_peer_bytes(&config);
    static void *memory;  // one for all inputs: it is large
    if (!memory) memory = aligned_alloc(64, bytes);
    FUZZ_CHECK(memory != NULL);
    memset(memory, 0, bytes);
    h = (host){.peer = session_peer_init(memory, &config, 0)};
    reader in = {data, size};
    while (in.left > 0) act(&h, &in);
    return 0;
}
