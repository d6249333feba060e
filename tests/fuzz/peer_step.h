// The host of the peer that fuzz_peer_step.c fuzzes: it keeps its side of braid/peer.h and checks that the peer keeps its own.
#ifndef BRAID_FUZZ_PEER_STEP_H
#define BRAID_FUZZ_PEER_STEP_H

#include "fuzz.h"

#include "braid/peer.h"

#include <stdbool.h>

enum {
    PEERS = 6,
    SELF = 5,  // the peer under test; the others are hostile
    STAGES = 3,
    TENSORS = 7,
    MAX_APPENDS = 64,  // not yet durable
    MAX_BLOBS = 4096,
    MAX_ANSWERS = 500,
    MAX_SENT = 32,
    MAX_MEMBERS = 64
};

enum { CHOOSE_LEADER = 1, CHOOSE_DATA = 2, CHOOSE_FAST = 4, CHOOSE_EVAL = 8, CHOOSE_CHECKPOINTS = 16, CHOOSE_ROUTING = 32, CHOOSE_CARRIED = 192 };
enum { ANSWER_FAILED = 1, ANSWER_NOT_FINITE = 2, ANSWER_OVERFLOW = 4, ANSWER_OTHER_HASH = 8 };

// The parts of the peer's messages that an honest receiver needs.
typedef struct sent_message {
    uint32_t to;
    message msg;
} sent_message;

typedef struct host {
    peer *p;
    peer_run run;
    peer_config config;
    uint64_t now;
    bool up[PEERS], closing[PEERS], exited;
    job outstanding;  // id 0: none
    uint32_t appends, committed, sends;
    uint32_t routed[MAX_MEMBERS];  // number of frames that each peer's router sent
    blob_id blobs;
    log_member member[MAX_MEMBERS];  // by number, as in the log; capacity 0: none
    bool held[MAX_BLOBS];            // by number; 0 is never held
    // not cleared between inputs; only written data is read
    log_entry append[MAX_APPENDS];
    sent_message sent[MAX_SENT];
} host;

braid_id host_name_of(uint32_t number);
// PEERS for a member that only a hostile log names.
uint32_t host_number_of(const braid_id *id);

// A fresh host and peer; `flags`: CHOOSE_*. From CHOOSE_CARRIED on, half of the tensors use a
// forwarder.
void host_init(host *h, uint8_t flags);
// Does nothing after the peer has left.
void host_step(host *h, const event *e);
// The size of the payload that an honest peer sends with the message.
uint64_t host_payload(const host *h, const message *msg);
// Delivers a message from a peer, with a payload where its kind has one. Does nothing when their
// link is down.
void host_deliver(host *h, uint32_t from, const message *msg, uint64_t payload_bytes);
void host_answer_job(host *h, uint8_t flags);
void host_commit_entry(host *h);
// Steps until no job and no log entry is pending.
void host_answer_all(host *h);

// An honest receiver answers the last `count` messages of the peer that it has not answered yet.
// `spoil`: the byte that is changed in each answer, 0: none.
void host_answer_messages(host *h, uint32_t count, uint8_t spoil);

#endif
