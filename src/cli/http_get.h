// One GET request to a server of this program, over plain HTTP.
#ifndef BRAID_CLI_HTTP_GET_H
#define BRAID_CLI_HTTP_GET_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { HTTP_GET_MAX_BYTES = 8 << 20, HTTP_GET_SECONDS = 10 };

typedef struct http_get_request {
    const char *host;
    uint16_t port;
    const char *path;
    const char *key;  // bearer key, NULL or "": none
} http_get_request;

// *body is the body of an answer with the status 200, ended by a 0 byte; free it with free.
// BRAID_NETWORK: no connection, or an answer in another form. BRAID_STATE: another status; the text
// has the server's message.
braid_err http_get(const http_get_request *request, char **body, size_t *length, braid_error *error);
// Splits an answer of `length` bytes, with a 0 byte behind it. *body is the offset of its body.
braid_err http_get_parse(const char *answer, size_t length, unsigned *status, size_t *body, braid_error *error);

#endif
