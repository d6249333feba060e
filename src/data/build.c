#include "data/build.h"

#include "base/sha256.h"
#include "data/batch.h"
#include "data/documents.h"
#include "data/ends.h"
#include "data/sources.h"
#include "format/quantity.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NOTE_BYTES = 512, KEY_BYTES = 12 };

typedef struct builder {
    const data_source *source;
    data_files files;
    data_ends ends;
    batch *batch;
    cache_writer *writer;
    cache_summary about;
    documents_counts counts;
    bool inside;  // a document has begun
    char path[DATA_MAX_PATH];
} builder;

static void note(const builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const builder *b, const char *format, ...) {
    char text[NOTE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (b->source->host.note) b->source->host.note(b->source->host.context, text);
}

// ---- the place of the cache ----

static void hash_text(sha256 *s, const char *text) { sha256_update(s, text, strlen(text) + 1); }

static braid_hash key_of(const builder *b) {
    const data_source *source = b->source;
    uint32_t numbers[] = {CACHE_VERSION, b->ends.begin, b->ends.end};
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, numbers, sizeof numbers);
    sha256_update(&s, &source->tokenizer_hash, sizeof source->tokenizer_hash);
    hash_text(&s, source->field);
    for (size_t i = 0; i < b->files.count; i++) {
        const data_file *f = &b->files.file[i];
        int64_t state[] = {(int64_t)f->bytes, f->changed_s, f->changed_ns};
        hash_text(&s, f->path);
        sha256_update(&s, state, sizeof state);
    }
    return sha256_final(&s);
}

static braid_err place_of(builder *b, braid_error *error) {
    char directory[PLACE_MAX_PATH], name[2 * KEY_BYTES + 1];
    braid_err err = place_directory(b->source->directory, directory, error);
    if (err) return err;
    b->about.key = key_of(b);
    id_hex(b->about.key.bytes, KEY_BYTES, name);
    if (snprintf(b->path, sizeof b->path, "%s/%s.tokens", directory, name) < (int)sizeof b->path) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "the path of data.cache is too long");
}

// ---- tokenising ----

static void put_id(builder *b, uint32_t id) {
    if (id != TOKENIZER_NO_ID) cache_put(b->writer, &id, 1);
}

static braid_err put_ids(void *context, const uint32_t *ids, size_t count, bool last, braid_error *error) {
    builder *b = context;
    if (count > 0 && !b->inside) put_id(b, b->ends.begin);
    b->inside |= count > 0;
    cache_put(b->writer, ids, count);
    if (!last) return BRAID_OK;
    if (b->inside) put_id(b, b->ends.end);
    b->inside = false;
    return cache_end_document(b->writer, error);
}

static braid_err take_text(void *context, const char *text, size_t length, bool last, braid_error *error) {
    builder *b = context;
    b->about.text_bytes += length;
    braid_err err = batch_add(b->batch, text, length, last, error);
    if (err || !batch_is_full(b->batch)) return err;
    if (place_stopped(&b->source->host))
        return braid_fail(error, BRAID_STATE, "stopped while the sources were tokenised; the next start begins again");
    return batch_run(b->batch, put_ids, b, error);
}

// Ids of a token file. Those of texts before it are written first.
static braid_err take_ids(void *context, const uint32_t *ids, size_t count, bool last, braid_error *error) {
    builder *b = context;
    uint32_t size = b->source->tokenizer ? tokenizer_size(b->source->tokenizer) : 256;
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= size)
            return braid_fail(
                error, BRAID_CONFIG,
                "a token file has the id %u and the tokenizer %u ids; set data.tokenizer to the tokenizer of the file",
                ids[i], size);
    braid_err err = batch_run(b->batch, put_ids, b, error);
    // the file's own beginning token is not repeated
    if (!err && !b->inside && count > 0 && ids[0] == b->ends.begin) return put_ids(b, ids + 1, count - 1, last, error);
    return err ? err : put_ids(b, ids, count, last, error);
}

// Another content under the same key would be found by later starts.
static braid_err check_unchanged(const data_file *f, braid_error *error) {
    struct stat now;
    bool same = stat(f->path, &now) == 0 && (uint64_t)now.st_size == f->bytes && now.st_mtim.tv_sec == f->changed_s &&
                now.st_mtim.tv_nsec == f->changed_ns;
    return same ? BRAID_OK
                : braid_fail(error, BRAID_IO, "'%s' changed while it was read; start again when it is complete",
                             f->path);
}

static braid_err read_all(builder *b, braid_error *error) {
    const documents_sink sink = {.context = b, .text = take_text, .ids = take_ids};
    braid_err err = BRAID_OK;
    for (size_t i = 0; i < b->files.count && !err; i++) {
        err = documents_read(b->files.file[i].path, b->source->field, &sink, &b->counts, error);
        if (!err) err = check_unchanged(&b->files.file[i], error);
    }
    return err ? err : batch_run(b->batch, put_ids, b, error);
}

static uint32_t width_of(const tokenizer *t) {
    uint32_t size = t ? tokenizer_size(t) : 256;
    return size <= 1 << 8 ? 1 : size <= 1 << 16 ? 2 : 4;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void note_made(const builder *b, double seconds) {
    const cache_summary *a = &b->about;
    char bytes[QUANTITY_TEXT];
    note(b, "tokenised %s of text: %llu documents, %llu tokens (%.2f bytes each) in %.1f s, %.1f MB/s",
         quantity_size_text(a->text_bytes, bytes), (unsigned long long)a->documents, (unsigned long long)a->tokens,
         (double)a->text_bytes / (double)a->tokens, seconds, (double)a->text_bytes / 1e6 / (seconds > 0 ? seconds : 1));
    if (b->counts.without > 0)
        note(b, "%llu of %llu rows have no text in '%s' and are left out; the first is %s",
             (unsigned long long)b->counts.without, (unsigned long long)b->counts.rows, b->source->field,
             b->counts.first);
}

static braid_err write_cache(builder *b, braid_error *error) {
    char bytes[QUANTITY_TEXT];
    double start = seconds_now();
    note(b, "tokenising %zu file%s of %s into %s", b->files.count, b->files.count == 1 ? "" : "s",
         quantity_size_text(b->files.bytes, bytes), b->path);
    braid_err err = batch_new(b->source->tokenizer, b->source->threads ? b->source->threads : 1, &b->batch, error);
    if (!err) err = cache_writer_new(b->path, width_of(b->source->tokenizer), &b->writer, error);
    if (!err) err = read_all(b, error);
    if (!err) {
        b->about.tokenizer = b->source->tokenizer_hash;
        b->about.rows_without = b->counts.without;
        err = cache_writer_end(b->writer, &b->about, error);
        b->writer = NULL;
    }
    cache_writer_abort(b->writer);
    batch_free(b->batch);
    if (!err && b->about.tokens > 0) note_made(b, seconds_now() - start);
    return err;
}

// ---- one maker at a time ----

static braid_err open_existing(const builder *b, cache **out, braid_error *error) {
    return cache_open(b->path, &b->about.key, out, error);
}

static braid_err make(builder *b, cache **out, braid_error *error) {
    int fd = -1;
    braid_err err = place_lock(b->path, &b->source->host, &fd, error);
    if (!err) {
        braid_error why = {0};
        err = open_existing(b, out, &why);  // another process may have made it meanwhile
        if (err == BRAID_FORMAT) note(b, "%s; it is made anew", why.text);
        if (err) {
            err = write_cache(b, error);
            if (!err) err = open_existing(b, out, error);
        }
    }
    if (fd >= 0) close(fd);
    return err;
}

braid_err data_cache_get(const data_source *source, cache **out, braid_error *error) {
    builder *b = calloc(1, sizeof *b);
    if (!b) return braid_fail(error, BRAID_MEMORY, "no memory for the sources");
    b->source = source;
    *out = NULL;
    braid_err err = data_ends_find(source->tokenizer, source->end, &b->ends, error);
    if (!err) err = data_files_find(source->paths, source->count, &b->files, error);
    if (!err) err = place_of(b, error);
    if (!err && open_existing(b, out, NULL)) err = make(b, out, error);
    if (!err && cache_about(*out)->tokens == 0) {
        cache_close(*out);
        *out = NULL;
        err = braid_fail(error, BRAID_CONFIG, "there is no text in '%s'%s", source->paths[0],
                         source->count > 1 ? " and the others" : "");
    }
    data_files_free(&b->files);
    free(b);
    return err;
}
