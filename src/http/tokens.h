// Texts to tokens and back, for a model with a tokenizer or one that reads bytes.
#ifndef BRAID_HTTP_TOKENS_H
#define BRAID_HTTP_TOKENS_H

#include "http/inside.h"

// Appends to *ids; flags as in tokenizer_encode. Any thread.
braid_err tokens_encode(http_server *s, const char *text, size_t length, unsigned flags, tokenizer_ids *ids,
                        braid_error *error);
// In new memory, special tokens included.
braid_err tokens_decode(http_server *s, const uint32_t *ids, size_t count, char **text, size_t *length,
                        braid_error *error);
uint32_t tokens_vocabulary(const http_server *s);
// The bytes of a token as an answer shows them; returns their number, which may be more than `capacity`.
size_t tokens_bytes(const http_server *s, uint32_t id, char *out, size_t capacity);
// A token as a string of JSON: its text, or "bytes:\xf0\x9f" when it is part of a character.
void tokens_put(json_out *o, const char *key, const http_server *s, uint32_t id);
// The same as a key of an object.
void tokens_name(const http_server *s, uint32_t id, char *out, size_t capacity);
// Characters that begin in the token.
size_t tokens_characters(const http_server *s, uint32_t id);

#endif
