// The information that a process needs to join a run: the leader's id and addresses. It is one
// word, for copy and paste:
//     braid1.<64 hex digits of the leader's id>.<8 hex digits of checksum>@host:port,[v6]:port
// That of a swarm that serves a model begins with "serve1." and names its API node.
// It holds no secret: the id is checked against the leader's certificate, so no other peer can
// answer for it.
#ifndef BRAID_NODE_TICKET_H
#define BRAID_NODE_TICKET_H

#include "base/err.h"
#include "base/id.h"
#include "wire/limits.h"

#include <stdbool.h>

enum { TICKET_MAX_TEXT = 7 + 2 * BRAID_ID_BYTES + 1 + 8 + 1 + WIRE_MAX_ADDRESS };

typedef struct ticket {
    braid_id leader;
    char address[WIRE_MAX_ADDRESS];
    bool serves;  // a model, in place of a training run
} ticket;

void ticket_format(const ticket *t, char text[TICKET_MAX_TEXT]);
// Surrounding blanks are ignored. Errors name the wrong part.
braid_err ticket_parse(const char *text, ticket *out, braid_error *error);

#endif
