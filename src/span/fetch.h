// Layers for a peer without the model's file, from peers that have them. A part is named by its SHA-256
// in the swarm's description: the model's shape, or a layer. Its bytes come in pieces from one peer at a
// time, the next peer goes on where one fails, and wrong bytes are refused by their hash.
#ifndef BRAID_SPAN_FETCH_H
#define BRAID_SPAN_FETCH_H

#include "node/blobs.h"
#include "session/message.h"
#include "span/peer.h"

typedef struct span_fetch span_fetch;

// `news` is called when there are requests to send, an error, or a part more.
bool span_fetch_open(span_peer *p, void (*news)(span_peer *p));
// The next request to send; false: there is none.
bool span_fetch_next(span_peer *p, braid_id *to, session_message *get);
// Why the layers cannot be fetched; NULL: they can.
const braid_error *span_fetch_error(const span_peer *p);
// Each returns true once all is there, and otherwise goes on with fetching.
bool span_fetch_shape(span_peer *p);
bool span_fetch_layers(span_peer *p, uint32_t begin, uint32_t end);
// Frees the memory of other layers. The result: bytes that came from other peers.
uint64_t span_fetch_keep(span_peer *p, uint32_t begin, uint32_t end);
void span_fetch_free(span_fetch *f);
// The answer to GET PIECE, and its payload.
blob_id span_fetch_answer(span_peer *p, const session_message_get_piece *get, session_message *piece);
// `payload` is borrowed.
void span_fetch_piece(span_peer *p, const braid_id *from, const session_message_piece *piece, const void *payload);

#endif
