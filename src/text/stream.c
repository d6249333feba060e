// Decoding one id after the other: what earlier ids said is decoded again with the new one, and the difference is the news.
#include "text/inside.h"

enum { STREAM_MAX_HELD = 64 };  // ids; then what is held back is given as it is

struct tokenizer_stream {
    const tokenizer *t;
    tokenizer_ids ids;  // those that still matter
    size_t prefix_ids;  // of them, told already
    char *prefix;       // their text
    size_t prefix_length;
    char *given;  // the text that the last call returned
    bool skip_special;
};

tokenizer_stream *tokenizer_stream_new(const tokenizer *t, bool skip_special) {
    tokenizer_stream *s = calloc(1, sizeof *s);
    if (s) s->t = t, s->skip_special = skip_special;
    return s;
}

void tokenizer_stream_free(tokenizer_stream *s) {
    if (!s) return;
    tokenizer_ids_free(&s->ids);
    free(s->prefix);
    free(s->given);
    free(s);
}

static braid_err decode(tokenizer_stream *s, char **text, size_t *length, braid_error *error) {
    return tokenizer_decode(s->t, s->ids.at, s->ids.count, s->skip_special, text, length, error);
}

// Keeps of the ids only those that were told last, as the context of the next ones.
static braid_err advance(tokenizer_stream *s, braid_error *error) {
    size_t kept = s->ids.count - s->prefix_ids;
    memmove(s->ids.at, s->ids.at + s->prefix_ids, kept * sizeof *s->ids.at);
    s->ids.count = s->prefix_ids = kept;
    free(s->prefix);
    s->prefix = NULL;
    return decode(s, &s->prefix, &s->prefix_length, error);
}

static bool ends_open(const char *text, size_t length) {
    return length >= 3 && memcmp(text + length - 3, "\xef\xbf\xbd", 3) == 0;
}

static braid_err give(tokenizer_stream *s, bool all, const char **text, size_t *length, braid_error *error) {
    char *whole = NULL;
    size_t n = 0;
    *text = "";
    *length = 0;
    if (s->ids.count == 0) return BRAID_OK;
    braid_err err = decode(s, &whole, &n, error);
    if (err) return err;
    bool same = n >= s->prefix_length && (!s->prefix_length || memcmp(whole, s->prefix, s->prefix_length) == 0);
    size_t from = same ? s->prefix_length : 0;
    bool held = s->ids.count - s->prefix_ids > STREAM_MAX_HELD;
    if (n <= s->prefix_length || (ends_open(whole, n) && !all && !held)) {
        free(whole);
        return BRAID_OK;
    }
    free(s->given);
    s->given = whole;
    *text = whole + from;
    *length = n - from;
    return advance(s, error);
}

braid_err tokenizer_stream_next(tokenizer_stream *s, uint32_t id, const char **text, size_t *length,
                                braid_error *error) {
    return ids_add(&s->ids, id) ? give(s, false, text, length, error) : text_no_memory(error);
}

braid_err tokenizer_stream_end(tokenizer_stream *s, const char **text, size_t *length, braid_error *error) {
    braid_err err = give(s, true, text, length, error);
    s->ids.count = s->prefix_ids = s->prefix_length = 0;
    return err;
}
