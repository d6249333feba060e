// What somebody needs to join a run: who the leader is and where. One word, made to be copied and pasted:
//     braid1.<64 hex digits of the leader's id>.<8 hex digits against typing errors>@host:port,[v6]:port
// It holds no secret: the id is checked against the leader's certificate, so that nobody else can answer for it.
#ifndef BRAID_NODE_TICKET_H
#define BRAID_NODE_TICKET_H

#include "base/err.h"
#include "base/id.h"
#include "wire/limits.h"

enum { TICKET_MAX_TEXT = 7 + 2 * BRAID_ID_BYTES + 1 + 8 + 1 + WIRE_MAX_ADDRESS };

typedef struct ticket {
    braid_id leader;
    char address[WIRE_MAX_ADDRESS];
} ticket;

void ticket_format(const ticket *t, char text[TICKET_MAX_TEXT]);
// Blanks around it are fine. Errors say which part is wrong.
braid_err ticket_parse(const char *text, ticket *out, braid_error *error);

#endif
