// Tuning over a serving swarm, inside src/span: peers lend their layers (lend.c) to a client that
// trains an adapter of its own (tuner.c). All functions are for the loop's thread.
#ifndef BRAID_SPAN_TUNING_H
#define BRAID_SPAN_TUNING_H

#include "node/blobs.h"
#include "span/peer.h"
#include "span/tuning_message.h"

typedef struct lender lender;

// --- tuning.c: messages between the net and both sides
// Takes over `payload`; 0: one byte is sent.
void tuning_send(span_peer *p, const braid_id *to, const tuning_message *msg, blob_id payload);

// --- lend.c
// The bytes that a message's payload must have; 0: it is not wanted, and its message is refused.
uint64_t lend_payload(span_peer *p, const braid_id *from, const tuning_message *msg);
// `payload` NULL: it was not wanted. The lender takes the blob over.
void lend_receive(span_peer *p, const braid_id *from, const tuning_message *msg, const void *payload, blob_id blob);
void lend_link_down(span_peer *p, const braid_id *id);
// All adapters are forgotten; the computation under way ends within the loop.
void lend_close(span_peer *p);
void lend_free(span_peer *p);

// --- tuner.c
uint64_t tuner_payload(tuner *t, const braid_id *from, const tuning_message *msg);
void tuner_receive(tuner *t, const braid_id *from, const tuning_message *msg, const void *payload);
void tuner_link_down(tuner *t, const braid_id *id);

#endif
