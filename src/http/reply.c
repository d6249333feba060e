#include "http/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reply_json(exchange *x, unsigned status, json_out *o) {
    size_t length = 0;
    char *text = json_out_take(o, &length);
    exchange_reply(x, status, "application/json", text, length);
}

void reply_text(exchange *x, unsigned status, const char *type, const char *text) {
    char *copy = strdup(text);
    exchange_reply(x, status, type, copy, strlen(text));
}

static const char *error_type(unsigned status) {
    if (status == 401 || status == 403) return "authentication_error";
    if (status == 429) return "rate_limit_error";
    return status < 500 ? "invalid_request_error" : "server_error";
}

static void put_optional(json_out *o, const char *key, const char *text) {
    if (text)
        json_out_string(o, key, text);
    else
        json_out_null(o, key);
}

void put_error(json_out *o, const char *key, unsigned status, const char *param, const char *code,
               const char *message) {
    json_out_open(o, key, '{');
    json_out_text(o, "message", message, strlen(message));
    json_out_string(o, "type", error_type(status));
    put_optional(o, "param", param);
    put_optional(o, "code", code);
    json_out_close(o, '}');
}

void reply_error(exchange *x, unsigned status, const char *param, const char *code, const char *format, ...) {
    char message[1024];
    json_out o = {0};
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    json_out_open(&o, NULL, '{');
    if (x->route && x->route->ollama)
        json_out_text(&o, "error", message, strlen(message));
    else
        put_error(&o, "error", status, param, code, message);
    json_out_close(&o, '}');
    reply_json(x, status, &o);
}

unsigned failure_status(braid_err code, bool late) {
    switch (code) {
    case BRAID_ARGUMENT:
    case BRAID_CONFIG:
    case BRAID_FORMAT: return late ? 500 : 400;
    case BRAID_LIMIT: return late ? 503 : 400;
    case BRAID_NOT_FOUND: return 404;
    case BRAID_BUSY: return 429;
    case BRAID_NETWORK:
    case BRAID_STATE: return 503;
    default: return 500;
    }
}

void reply_failure(exchange *x, const braid_error *error, const char *param, bool late) {
    unsigned status = failure_status(error->code, late);
    const char *code = error->code == BRAID_LIMIT && !late ? "context_length_exceeded"
                       : status == 404                     ? "model_not_found"
                       : status == 429                     ? "queue_full"
                       : status == 503                     ? "not_ready"
                                                           : NULL;
    if (status == 429 || status == 503) exchange_header_set(x, "Retry-After", status == 429 ? "1" : "2");
    reply_error(x, status, param, code, "%s", error->text);
}

void make_id(http_server *s, const char *prefix, char out[64]) {
    snprintf(out, 64, "%.16s%016llx%08x", prefix, (unsigned long long)server_random(s), (unsigned)server_random(s));
}
