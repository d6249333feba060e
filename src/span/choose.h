// The layers that a joining peer takes. Pure.
#ifndef BRAID_SPAN_CHOOSE_H
#define BRAID_SPAN_CHOOSE_H

#include "session/session.h"

// Layers [*begin, *begin + count) where the swarm is the slowest: first by layers without a peer,
// then by the rate of the slowest layers, a peer's rate being shared by its layers. count <= layers
// of the model. The same view gives the same answer; of equal places, the lowest one.
void choose_layers(const session_view *view, const braid_hash *model, uint16_t layers, uint16_t count, uint16_t *begin);

#endif
