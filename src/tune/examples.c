#include "tune/inside.h"

#include "base/sha256.h"
#include "data/jsonl.h"
#include "data/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE_BYTES = 1 << 16 };

// ---- examples

// Cuts the tokens since the last example to the longest, and makes them one if any counts. The
// first token has nothing before it, so it never counts.
static braid_err close_example(examples_reader *r) {
    tune_examples *e = r->out;
    uint64_t first = examples_begin(e, e->count);
    size_t longest = r->source->longest;
    bool any = false;
    if (e->ids.count - first > longest) {
        e->cut++;
        e->cut_tokens += e->ids.count - first - longest;
        e->ids.count = first + longest;
    }
    for (size_t i = first + 1; i < e->ids.count; i++) any = any || e->learned[i];
    if (!any) {
        e->dropped++;
        e->ids.count = first;
        return BRAID_OK;
    }
    e->learned[first] = 0;
    if (e->count == e->ends_room) {
        uint32_t room = e->ends_room ? 2 * e->ends_room : 256;
        uint64_t *more = realloc(e->ends, room * sizeof *more);
        if (!more) return examples_no_memory(r);
        e->ends = more;
        e->ends_room = room;
    }
    if (e->count == EXAMPLES_MAX)
        return braid_fail(r->error, BRAID_LIMIT, "%s has more than %d examples; give fewer", r->source->path,
                          EXAMPLES_MAX);
    e->ends[e->count++] = e->ids.count;
    return BRAID_OK;
}

static braid_err add_pair(examples_reader *r, const json_value *prompt, const json_value *completion) {
    if (json_string(prompt) == NULL || json_string(completion) == NULL)
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s:%llu: prompt and completion must both be texts; give a conversation as messages",
                          r->source->path, (unsigned long long)r->line);
    braid_err err = examples_add(r, prompt->text, prompt->length, TOKENIZER_ADD_SPECIAL, false);
    if (!err) err = examples_add(r, completion->text, completion->length, 0, true);
    return err ? err : examples_add_end(r);
}

static braid_err add_text(examples_reader *r, const json_value *text) {
    braid_err err = examples_add(r, text->text, text->length, TOKENIZER_ADD_SPECIAL, true);
    return err ? err : examples_add_end(r);
}

static braid_err add_row(examples_reader *r, const char *text, size_t length) {
    json *row = NULL;
    braid_error why = {0};
    braid_err err = json_parse(text, length, &row, &why);
    if (err) return braid_fail(r->error, err, "%s:%llu: %s", r->source->path, (unsigned long long)r->line, why.text);
    const json_value *root = json_root(row), *messages = json_member(row, root, "messages"),
                     *prompt = json_member(row, root, "prompt"), *completion = json_member(row, root, "completion"),
                     *plain = json_member(row, root, "text");
    if (messages)
        err = chats_add(r, row, messages);
    else if (prompt && completion)
        err = add_pair(r, prompt, completion);
    else if (json_string(plain))
        err = add_text(r, plain);
    else
        err = braid_fail(r->error, BRAID_FORMAT,
                         "%s:%llu: the row has neither messages, nor prompt and completion, nor a text",
                         r->source->path, (unsigned long long)r->line);
    json_free(row);
    return err ? err : close_example(r);
}

// ---- rows

static braid_err take(examples_reader *r, jsonl *rows, const char *bytes, size_t count) {
    size_t at = 0;
    braid_err err = BRAID_OK;
    while (at < count && !err) {
        size_t used = 0;
        bool complete = false;
        braid_error why = {0};
        err = jsonl_take(rows, bytes + at, count - at, &used, &complete, &why);
        if (err) return braid_fail(r->error, err, "%s: %s", r->source->path, why.text);
        at += used;
        r->line = rows->row_line;
        if (complete) err = add_row(r, rows->row.at, rows->row.count);
    }
    return err;
}

static braid_err read_rows(examples_reader *r) {
    data_stream *stream = NULL;
    jsonl rows = {.line = 1};
    char *piece = malloc(PIECE_BYTES);
    size_t count = 1;
    braid_err err = piece ? data_stream_open(r->source->path, &stream, r->error) : examples_no_memory(r);
    while (!err && count > 0) {
        err = data_stream_read(stream, piece, PIECE_BYTES, &count, r->error);
        if (!err) err = take(r, &rows, piece, count);
    }
    braid_error why = {0};
    if (!err && (err = jsonl_end(&rows, &why))) braid_fail(r->error, err, "%s: %s", r->source->path, why.text);
    jsonl_free(&rows);
    data_stream_close(stream);
    free(piece);
    return err;
}

static char *token_text(const tokenizer *t, uint32_t id) {
    size_t length = 0;
    const char *text = id == TOKENIZER_NO_ID ? NULL : tokenizer_token(t, id, &length);
    return text ? strndup(text, length) : NULL;
}

braid_err examples_read(tune_examples *e, const examples_source *source, braid_error *error) {
    examples_reader r = {.out = e, .source = source, .error = error};
    const tokenizer *t = source->tokenizer;
    struct stat file;
    uint32_t before = e->count;
    if (stat(source->path, &file) == 0) gmtime_r(&file.st_mtime, &r.day);
    r.bos = t ? token_text(t, tokenizer_bos(t)) : NULL;
    r.eos = t ? token_text(t, tokenizer_eos(t)) : NULL;
    braid_err err = read_rows(&r);
    free(r.bos);
    free(r.eos);
    if (!err && e->count == before)
        err = braid_fail(error, BRAID_FORMAT, "%s has no example with a token to learn within %u tokens", source->path,
                         source->longest);
    return err;
}

void examples_free(tune_examples *e) {
    free(e->ends);
    free(e->learned);
    tokenizer_ids_free(&e->ids);
    *e = (tune_examples){0};
}

braid_hash examples_hash(const tune_examples *e) {
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, &e->count, sizeof e->count);
    sha256_update(&s, e->ends, e->count * sizeof *e->ends);
    sha256_update(&s, e->ids.at, e->ids.count * sizeof *e->ids.at);
    sha256_update(&s, e->learned, e->ids.count);
    return sha256_final(&s);
}
