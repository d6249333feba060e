// Layers for a peer without the model's file, from peers that have them. A part is named by its SHA-256
// in the swarm's description: the model's shape, or a layer. Its bytes come in pieces from one peer at a
// time, the next peer goes on where one fails, and wrong bytes are refused by their hash.
#ifndef BRAID_SPAN_FETCH_H
#define BRAID_SPAN_FETCH_H

#include "session/message.h"
#include "span/peer.h"

typedef struct span_fetch span_fetch;

// Each returns true once all is there, and otherwise goes on with fetching. A failure ends the peer.
bool span_fetch_shape(span_peer *p);
bool span_fetch_layers(span_peer *p, uint32_t begin, uint32_t end);
// Frees the memory of other layers.
void span_fetch_keep(span_peer *p, uint32_t begin, uint32_t end);
void span_fetch_free(span_fetch *f);
// Handles GET PIECE and PIECE; false: another kind. `payload` is borrowed.
bool span_fetch_message(span_peer *p, const braid_id *from, const session_message *msg, const void *payload);

#endif
