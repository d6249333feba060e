// A peer among hostile ones: whatever well-formed messages come, in whatever order, between whatever answers of its
// host, it must not trip an assertion of its own, and its effects must keep the rules of braid/peer.h.
//
// An input is a byte that chooses the peer, then acts, each a byte and its operands (see `act`). Unless an act's top bit is
// set, the host answers every job and makes every log entry durable before the next one. ACT_ANSWER lets the other side
// answer something that the peer sent as an honest one would, or nearly so: without it no input gets far into a run.
#include "peer_step.h"

#include "braid/peer.h"
#include "wire_random.h"

enum {
    ACT_TICK,
    ACT_LINK_UP,
    ACT_LINK_DOWN,
    ACT_MESSAGE,
    ACT_JOB_DONE,
    ACT_COMMITTED,
    ACT_ANSWER,
    ACT_DRAIN,
    ACTS,
    ACT_HOLD = 0x80
};

// ---- acts

typedef struct reader {
    const uint8_t *data;
    size_t left;
} reader;

static uint8_t next_byte(reader *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->data++;
}

static void link_act(host *h, uint8_t operand, bool up) {
    uint32_t other = operand % SELF;
    if (h->up[other] == up && up) return;
    h->up[other] = up;
    host_step(h, &(event){.kind = up ? EVENT_LINK_UP : EVENT_LINK_DOWN,
                          .id = host_name_of(other),
                          .refused = operand >= ACT_HOLD});
}

static void message_act(host *h, reader *in) {
    static message msg;
    uint8_t from = next_byte(in);
    size_t count = next_byte(in);
    count |= (size_t)next_byte(in) << 8;
    if (count > in->left) count = in->left;
    bool good = message_decode(in->data, count, &msg);
    in->data += count;
    in->left -= count;
    if (good) host_deliver(h, from % SELF, &msg, from >= ACT_HOLD ? 1 : host_payload(h, &msg));
}

static void act(host *h, reader *in) {
    uint8_t what = next_byte(in);
    switch ((what & ~ACT_HOLD) % ACTS) {
    case ACT_TICK:
        h->now += (uint64_t)1000000 << next_byte(in) % 14;
        host_step(h, &(event){.kind = EVENT_TICK});
        break;
    case ACT_LINK_UP: link_act(h, next_byte(in), true); break;
    case ACT_LINK_DOWN: link_act(h, next_byte(in), false); break;
    case ACT_MESSAGE: message_act(h, in); break;
    case ACT_JOB_DONE: host_answer_job(h, next_byte(in)); break;
    case ACT_COMMITTED: host_commit_entry(h); break;
    case ACT_ANSWER: {
        uint8_t operand = next_byte(in);
        host_answer_messages(h, operand, operand >= 0x80 ? next_byte(in) : 0);
        break;
    }
    default: host_step(h, &(event){.kind = EVENT_DRAIN}); break;
    }
    if (!(what & ACT_HOLD)) host_answer_all(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static host h;
    if (size == 0) return 0;
    host_init(&h, data[0]);
    reader in = {data + 1, size - 1};
    while (in.left > 0 && !h.exited) act(&h, &in);
    return 0;
}

// ---- examples: a run that starts normally, then random acts

typedef struct writer {
    uint8_t *bytes;
    size_t used, capacity;
    wire_random random;
    uint64_t log_index, hostility;
} writer;

static void put_byte(writer *w, uint8_t byte) {
    if (w->used < w->capacity) w->bytes[w->used++] = byte;
}

static void put_message(writer *w, uint8_t from, const message *msg) {
    uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    size_t count = message_encode(msg, bytes, sizeof bytes);
    if (count == 0 || count + 4 > w->capacity - w->used) return;
    put_byte(w, ACT_MESSAGE);
    put_byte(w, from);
    put_byte(w, (uint8_t)count);
    put_byte(w, (uint8_t)(count >> 8));
    memcpy(w->bytes + w->used, bytes, count);
    w->used += count;
}

static void put_log(writer *w, const log_entry *entry) {
    message msg = {.kind = MESSAGE_LOG, .sender = 1, .log_position = w->log_index};
    msg.u.log.previous = w->log_index;
    msg.u.log.entry = *entry;
    msg.u.log.entry.index = ++w->log_index;
    msg.u.log.entry.term = 1;
    put_message(w, 0, &msg);
}

// The log as a leader writes it: peer i becomes member i + 1. Peer 0 leads; the peer under test is
// in the last relay's stage, or is a second data peer.
static void put_start(writer *w, uint8_t flags) {
    for (uint32_t i = 0; i < PEERS; i++) {
        uint16_t stage = i == SELF && flags & CHOOSE_DATA ? 0 : (uint16_t)(i % STAGES);
        log_entry entry = {.kind = LOG_MEMBER};
        entry.u.member = (log_member){.peer = host_name_of(i),
                                      .stage = stage,
                                      .capacity = 2,
                                      .incarnation = i == SELF ? flags : 0,
                                      .address = "127.0.0.1:3",
                                      .kind = stage == 0 ? MEMBER_DATA : MEMBER_RELAY};
        put_log(w, &entry);
    }
    put_log(w, &(log_entry){.kind = LOG_OWNER, .u.owner = {.slot = 0, .member = 1}});
    put_log(w, &(log_entry){.kind = LOG_OWNER, .u.owner = {.slot = 1, .member = flags & CHOOSE_DATA ? SELF + 1 : 4}});
    put_log(w, &(log_entry){.kind = LOG_RUN, .u.run.description.bytes = {1}});
}

static void put_joins(writer *w) {
    for (uint8_t i = 0; i < SELF; i++) {
        message msg = {.kind = MESSAGE_JOIN};
        msg.u.join =
            (message_join){.kind = i == 0 ? MEMBER_DATA : MEMBER_RELAY, .capacity = 2, .address = "127.0.0.1:3"};
        put_message(w, i, &msg);
    }
}

// A tensor in pieces, complete or nearly, that may have been announced before with another number
// of pieces.
static void put_parcel(writer *w, uint8_t flags) {
    rng *r = w->random.r;
    uint8_t from = (uint8_t)rng_below(r, SELF);
    bool leads = flags & CHOOSE_LEADER, forward = rng_below(r, 2) == 0;
    message_parcel parcel = {.serial = (uint32_t)rng_below(r, 4), .pieces = (uint16_t)(1 + rng_below(r, WIRE_MAX_PIECES))};
    message msg, piece = {.kind = MESSAGE_CARRY};
    random_message(&w->random, forward ? MESSAGE_FORWARD : MESSAGE_BACKWARD, &msg);
    msg.iteration = rng_below(r, 2);
    msg.sender = piece.sender = from + (leads ? 2u : 1u);
    *(forward ? &msg.u.forward.parcel : &msg.u.backward.parcel) = parcel;
    *(forward ? &msg.u.forward.hash : &msg.u.backward.hash) = 8;
    piece.u.carry = (message_carry){.origin = msg.sender, .to = leads ? 1 : SELF + 1, .serial = parcel.serial, .count = parcel.pieces};
    uint64_t said = rng_below(r, parcel.pieces + 1u);
    for (uint16_t i = 0; i < parcel.pieces; i++) {
        if (i == said) put_message(w, from, &msg);
        piece.u.carry.index = i;
        if (rng_below(r, 40) > 0) put_message(w, from, &piece);
    }
    if (said == parcel.pieces) put_message(w, from, &msg);
}

static void put_anything(writer *w, uint8_t flags) {
    rng *r = w->random.r;
    if (flags >= CHOOSE_CARRIED && rng_below(r, 8) == 0) put_parcel(w, flags);
    if (rng_below(r, 8) > w->hostility) {
        put_byte(w, ACT_ANSWER);
        put_byte(w, (uint8_t)(MAX_SENT - 1 + (rng_below(r, 64) < w->hostility ? 0x80 : 0)));
        put_byte(w, ACT_TICK);
        put_byte(w, (uint8_t)rng_below(r, 12));
        return;
    }
    if (rng_below(r, 3) > 0) {
        uint8_t from = (uint8_t)rng_below(r, SELF);
        message msg;
        random_message(&w->random, (uint8_t)(1 + rng_below(r, MESSAGE_KINDS - 1)), &msg);
        msg.iteration = rng_below(r, 2);
        msg.sender = rng_below(r, 8) == 0 ? rng_below(r, 9) : from + (flags & CHOOSE_LEADER ? 2u : 1u);
        if (msg.kind == MESSAGE_LOG && rng_below(r, 2) == 0)
            put_log(w, &msg.u.log.entry);
        else
            put_message(w, from, &msg);
        return;
    }
    uint8_t what = (uint8_t)rng_below(r, rng_below(r, 20) == 0 ? ACTS : ACT_DRAIN);
    if (what == ACT_MESSAGE) what = ACT_TICK;
    put_byte(w, (uint8_t)(what | (rng_below(r, 4) == 0 ? ACT_HOLD : 0)));
    put_byte(w, (uint8_t)rng_next(r));
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(45, number)};
    writer w = {.bytes = bytes,
                .capacity = capacity,
                .random = {.r = &r, .below = (uint32_t)(3 + number % 6)},
                .hostility = number % 8};
    uint8_t flags = (uint8_t)(number % 4 == 0 ? CHOOSE_CARRIED + rng_below(&r, 64) : rng_below(&r, 96));
    put_byte(&w, flags);
    for (uint8_t i = 0; i < SELF; i++) {
        put_byte(&w, ACT_LINK_UP);
        put_byte(&w, i);
    }
    if (flags & CHOOSE_LEADER)
        put_joins(&w);
    else
        put_start(&w, flags);
    for (uint64_t acts = rng_below(&r, 100); acts > 0; acts--) put_anything(&w, flags);
    return w.used;
}
