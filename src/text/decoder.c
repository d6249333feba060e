// Decoders: the texts of tokens become one text. Each step turns a list of texts into another.
#include "text/inside.h"

typedef struct list {
    buffer text;
    size_t *ends;
    size_t count, capacity;
    bool failed;
} list;

static void list_end(list *l) {
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 64;
        size_t *ends = realloc(l->ends, capacity * sizeof *ends);
        if (!ends) {
            l->failed = true;
            return;
        }
        l->ends = ends;
        l->capacity = capacity;
    }
    l->ends[l->count++] = l->text.count;
}

static void list_free(list *l) {
    buffer_free(&l->text);
    free(l->ends);
}

typedef struct decoding {
    list in, out;
    buffer bytes;
    regex_scratch *scratch;
    braid_error *error;
} decoding;

// The item as bytes; false when a character of it stands for none.
static bool add_bytes(buffer *out, const char *text, size_t length) {
    size_t before = out->count;
    for (size_t at = 0; at < length;) {
        int byte = char_byte(utf8_next(text, &at));
        if (byte < 0) {
            out->count = before;
            return false;
        }
        buffer_byte(out, (char)byte);
    }
    return true;
}

static void all_bytes(decoding *d) {
    d->bytes.count = 0;
    for (size_t i = 0, from = 0; i < d->in.count; from = d->in.ends[i++]) {
        const char *text = d->in.text.at + from;
        if (!add_bytes(&d->bytes, text, d->in.ends[i] - from)) buffer_add(&d->bytes, text, d->in.ends[i] - from);
    }
    if (d->bytes.count) utf8_repair(d->bytes.at, d->bytes.count, &d->out.text);
    list_end(&d->out);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// <0xHH>; -1: it is none. Rust's from_str_radix takes "+H" too.
static int fallback_byte(const char *text, size_t length) {
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static void put_run(decoding *d) {
    if (d->bytes.count == 0) return;
    if (utf8_valid(d->bytes.at, d->bytes.count) == d->bytes.count) {
        buffer_add(&d->out.text, d->bytes.at, d->bytes.count);
        list_end(&d->out);
    } else {
        for (size_t i = 0; i < d->bytes.count; i++) {
            buffer_add(&d->out.text, "\xef\xbf\xbd", 3);
            list_end(&d->out);
        }
    }
    d->bytes.count = 0;
}

static void byte_fallback(decoding *d) {
    d->bytes.count = 0;
    for (size_t i = 0, from = 0; i < d->in.count; from = d->in.ends[i++]) {
        const char *text = d->in.text.at + from;
        int byte = fallback_byte(text, d->in.ends[i] - from);
        if (byte >= 0) {
            buffer_byte(&d->bytes, (char)byte);
            continue;
        }
        put_run(d);
        buffer_add(&d->out.text, text, d->in.ends[i] - from);
        list_end(&d->out);
    }
    put_run(d);
}

static void put_replaced(buffer *out, const char *text, size_t length, const char *what, size_t width,
                         const char *with) {
    size_t gap = 0;
    const char *found;
    while (width && gap < length && (found = memmem(text + gap, length - gap, what, width)) != NULL) {
        buffer_add(out, text + gap, (size_t)(found - text) - gap);
        buffer_add(out, with, strlen(with));
        gap = (size_t)(found - text) + width;
    }
    buffer_add(out, text + gap, length - gap);
}

// Removes up to `start` characters of the kind in front and `stop` behind.
static void put_stripped(buffer *out, const decode_step *s, const char *text, size_t length) {
    size_t width = strlen(s->character), from = 0, to = length;
    for (uint64_t i = 0; i < s->start && to - from >= width && memcmp(text + from, s->character, width) == 0; i++)
        from += width;
    for (uint64_t i = 0; i < s->stop && to >= width && memcmp(text + to - width, s->character, width) == 0; i++)
        to -= width;
    if (to > from) buffer_add(out, text + from, to - from);
}

static void put_metaspace(buffer *out, const decode_step *s, const char *text, size_t length, bool first) {
    put_replaced(out, text, length, s->character, strlen(s->character), first && s->drop_first ? "" : " ");
}

static void clean_up(decoding *d, const char *text, size_t length) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    size_t start = d->out.text.count;
    buffer_add(&d->out.text, text, length);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !d->out.text.failed; i++) {
        d->bytes.count = 0;
        put_replaced(&d->bytes, d->out.text.at + start, d->out.text.count - start, pairs[i][0], strlen(pairs[i][0]),
                     pairs[i][1]);
        d->out.text.count = start;
        buffer_add(&d->out.text, d->bytes.at, d->bytes.count);
    }
}

static void put_wordpiece(decoding *d, const decode_step *s, const char *text, size_t length, bool first) {
    buffer joined = {0};
    if (!first && length >= s->text_length && memcmp(text, s->text, s->text_length) == 0) {
        text += s->text_length;
        length -= s->text_length;
    } else if (!first) {
        buffer_byte(&joined, ' ');
    }
    buffer_add(&joined, text, length);
    if (s->cleanup)
        clean_up(d, joined.at ? joined.at : "", joined.count);
    else
        buffer_add(&d->out.text, joined.at, joined.count);
    d->out.failed |= joined.failed;
    buffer_free(&joined);
}

static braid_err put_pattern(decoding *d, const decode_step *s, const char *text, size_t length) {
    braid_err err = BRAID_OK;
    if (pattern_replace(&s->pattern, text, length, s->text, s->text_length, &d->bytes, d->scratch, d->error, &err))
        buffer_add(&d->out.text, d->bytes.at, d->bytes.count);
    else
        buffer_add(&d->out.text, text, length);
    return err;
}

static braid_err each(decoding *d, const decode_step *s) {
    braid_err err = BRAID_OK;
    for (size_t i = 0, from = 0; i < d->in.count && !err; from = d->in.ends[i++]) {
        const char *text = d->in.text.at ? d->in.text.at + from : "";
        size_t length = d->in.ends[i] - from;
        bool last = i + 1 == d->in.count;
        switch (s->kind) {
        case DECODE_REPLACE: err = put_pattern(d, s, text, length); break;
        case DECODE_STRIP: put_stripped(&d->out.text, s, text, length); break;
        case DECODE_METASPACE: put_metaspace(&d->out.text, s, text, length, i == 0); break;
        case DECODE_WORDPIECE: put_wordpiece(d, s, text, length, i == 0); break;
        case DECODE_BPE: put_replaced(&d->out.text, text, length, s->text, s->text_length, last ? "" : " "); break;
        default:  // JOIN
            buffer_add(&d->out.text, text, length);
            if (!last) buffer_byte(&d->out.text, ' ');
        }
        list_end(&d->out);
    }
    return err;
}

static braid_err one_step(decoding *d, const decode_step *s) {
    if (s->kind == DECODE_BYTE_LEVEL) return all_bytes(d), BRAID_OK;
    if (s->kind == DECODE_BYTE_FALLBACK) return byte_fallback(d), BRAID_OK;
    if (s->kind != DECODE_FUSE) return each(d, s);
    buffer_add(&d->out.text, d->in.text.at, d->in.text.count);
    list_end(&d->out);
    return BRAID_OK;
}

static bool is_special(const tokenizer *t, uint32_t id) {
    return id < t->size && t->added_by_id[id] != UINT32_MAX && t->added[t->added_by_id[id]].special;
}

// Added tokens as they are normalized, so that the decoder can take that back.
static bool add_token(const tokenizer *t, list *l, uint32_t id) {
    size_t length;
    const char *text;
    uint32_t added = id < t->size ? t->added_by_id[id] : UINT32_MAX;
    if (added != UINT32_MAX) {
        const added_token *token = &t->added[added];
        text = token->normalized_text ? token->normalized_text : token->text;
        length = token->normalized_text ? token->normalized_length : token->length;
    } else {
        text = vocabulary_text(&t->vocabulary, id, &length);
        if (!text) return false;
    }
    buffer_add(&l->text, text, length);
    list_end(l);
    return true;
}

// llama.cpp's way: the bytes of each token alone.
static void gguf_text(const tokenizer *t, const uint32_t *ids, size_t count, bool skip_special, decoding *d) {
    for (size_t i = 0; i < count; i++) {
        char small[256];
        if (skip_special && is_special(t, ids[i])) continue;
        size_t n = tokenizer_token_bytes(t, ids[i], small, sizeof small);
        if (n <= sizeof small) {
            buffer_add(&d->bytes, small, n);
        } else if (buffer_room(&d->bytes, n)) {
            tokenizer_token_bytes(t, ids[i], d->bytes.at + d->bytes.count, n);
            d->bytes.count += n;
        }
    }
    if (d->bytes.count) utf8_repair(d->bytes.at, d->bytes.count, &d->in.text);
}

braid_err tokenizer_decode(const tokenizer *t, const uint32_t *ids, size_t count, bool skip_special, char **text,
                           size_t *length, braid_error *error) {
    decoding d = {.scratch = regex_scratch_new(), .error = error};
    braid_err err = d.scratch ? BRAID_OK : text_no_memory(error);
    if (t->gguf && !err) gguf_text(t, ids, count, skip_special, &d);
    for (size_t i = 0; i < count && !t->gguf; i++)
        if (!skip_special || !is_special(t, ids[i])) add_token(t, &d.in, ids[i]);
    for (uint32_t i = 0; i < t->decodes && !err && !t->gguf && d.in.count; i++) {
        err = one_step(&d, &t->decode[i]);
        list swap = d.in;
        d.in = d.out;
        d.out = swap;
        d.out.count = d.out.text.count = 0;
    }
    buffer_byte(&d.in.text, 0);
    bool failed = d.in.failed || d.out.failed || d.in.text.failed || d.out.text.failed || d.bytes.failed;
    if (!err && failed) err = text_no_memory(error);
    if (!err) {
        *length = d.in.text.count - 1;
        *text = d.in.text.at;
        d.in.text = (buffer){0};
    }
    list_free(&d.in);
    list_free(&d.out);
    buffer_free(&d.bytes);
    regex_scratch_free(d.scratch);
    return err;
}

size_t tokenizer_token_bytes(const tokenizer *t, uint32_t id, char *out, size_t capacity) {
    size_t length, n = 0;
    const char *text = tokenizer_token(t, id, &length);
    if (!text) return 0;
    bool added = id < t->size && t->added_by_id[id] != UINT32_MAX;
    int byte = added ? -1 : fallback_byte(text, length);
    bool byte_tokens = t->kind == MODEL_SPM || (t->kind == MODEL_BPE && t->bpe.byte_fallback) ||
                       (t->kind == MODEL_UNIGRAM && t->unigram.byte_fallback);
    if (byte >= 0 && byte_tokens) {
        if (capacity) out[0] = (char)byte;
        return 1;
    }
    bool level = t->decodes == 1 && t->decode[0].kind == DECODE_BYTE_LEVEL;
    buffer made = {0};
    bool fine = !added && level && add_bytes(&made, text, length);
    if (!fine && !added && !level) put_replaced(&made, text, length, "\xe2\x96\x81", 3, " ");
    if (!fine && (added || level)) buffer_add(&made, text, length);
    n = made.count;
    if (n && n <= capacity) memcpy(out, made.at, n);
    buffer_free(&made);
    return n;
}
