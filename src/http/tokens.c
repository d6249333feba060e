#include "http/tokens.h"

#include "format/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 256 };

static braid_err add_bytes(const char *text, size_t length, tokenizer_ids *ids, braid_error *error) {
    uint32_t *larger = realloc(ids->at, (ids->count + length + 1) * sizeof *larger);
    if (!larger) return braid_fail(error, BRAID_MEMORY, "no memory for the tokens of a text");
    ids->at = larger;
    ids->capacity = ids->count + length + 1;
    for (size_t i = 0; i < length; i++) ids->at[ids->count++] = (unsigned char)text[i];
    return BRAID_OK;
}

braid_err tokens_encode(http_server *s, const char *text, size_t length, unsigned flags, tokenizer_ids *ids,
                        braid_error *error) {
    if (!s->model->tokenizer) return add_bytes(text, length, ids, error);
    tokenizer_encoder *e = tokenizer_encoder_new(s->model->tokenizer);
    if (!e) return braid_fail(error, BRAID_MEMORY, "no memory for the tokens of a text");
    braid_err err = tokenizer_encode(e, text, length, flags, ids, error);
    tokenizer_encoder_free(e);
    return err;
}

braid_err tokens_decode(http_server *s, const uint32_t *ids, size_t count, char **text, size_t *length,
                        braid_error *error) {
    if (s->model->tokenizer) return tokenizer_decode(s->model->tokenizer, ids, count, false, text, length, error);
    *text = malloc(count + 1);
    if (!*text) return braid_fail(error, BRAID_MEMORY, "no memory for a text");
    for (size_t i = 0; i < count; i++) (*text)[i] = (char)ids[i];
    (*text)[ *length = count] = 0;
    return BRAID_OK;
}

uint32_t tokens_vocabulary(const http_server *s) { return s->model->config->vocab; }

size_t tokens_bytes(const http_server *s, uint32_t id, char *out, size_t capacity) {
    const tokenizer *t = s->model->tokenizer;
    if (!t) {
        if (capacity > 0) out[0] = (char)id;
        return id < 256;
    }
    if (!tokenizer_is_special(t, id)) return tokenizer_token_bytes(t, id, out, capacity);
    size_t length = 0;
    const char *text = tokenizer_token(t, id, &length);
    if (text) memcpy(out, text, length < capacity ? length : capacity);
    return text ? length : 0;
}

static bool is_utf8(const char *text, size_t length) {
    for (size_t i = 0, n; i < length; i += n)
        if ((n = utf8_bytes(text + i, length - i)) == 0) return false;
    return true;
}

void tokens_name(const http_server *s, uint32_t id, char *out, size_t capacity) {
    char bytes[SHOWN_BYTES];
    size_t n = tokens_bytes(s, id, bytes, sizeof bytes), at = 0;
    if (n > sizeof bytes) n = sizeof bytes;
    if (is_utf8(bytes, n) && !memchr(bytes, 0, n) && n < capacity) {
        memcpy(out, bytes, n);
        out[n] = 0;
        return;
    }
    at = (size_t)snprintf(out, capacity, "bytes:");
    for (size_t i = 0; i < n && at + 5 < capacity; i++)
        at += (size_t)snprintf(out + at, capacity - at, "\\x%02x", (unsigned char)bytes[i]);
}

void tokens_put(json_out *o, const char *key, const http_server *s, uint32_t id) {
    char name[4 * SHOWN_BYTES + 16];
    tokens_name(s, id, name, sizeof name);
    json_out_string(o, key, name);
}

size_t tokens_characters(const http_server *s, uint32_t id) {
    char bytes[SHOWN_BYTES];
    size_t n = tokens_bytes(s, id, bytes, sizeof bytes), characters = 0;
    for (size_t i = 0; i < n && i < sizeof bytes; i++) characters += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return characters;
}
