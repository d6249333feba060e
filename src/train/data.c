#include "train/data.h"

#include "base/rng.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The purpose of a sample: training and evaluation draw from different streams of one seed.
enum { STREAM_TRAIN = 0x7472, STREAM_HELD_OUT = 0x686f };

// Files are read on demand and not mapped, because truncation of a mapped file would end the
// process.
typedef struct text_file {
    int fd;
    char *path;
    uint64_t begin, count;  // offset in the whole text
    struct stat *seen;  // status at the last time when its content matched the hash
} text_file;

enum { READ_BYTES = 1 << 16 };

struct train_data {
    uint64_t bytes, train_bytes;  // [train_bytes, bytes) is held out
    braid_hash hash;
    train_data **share;  // private data: each data peer's text; only the number of slots is used besides
    uint32_t share_count;
    train_shares shares;
    packed_data *packed;  // tokens; the members above are unused then
    uint32_t microbatches;
    files_text *carried;
    uint32_t carried_count;
    uint32_t file_count;
    text_file file[];
};

static braid_err open_error(const char *path, braid_error *error) {
    if (errno == ENOENT)
        return braid_fail(error, BRAID_IO, "no text at '%s'; name an existing file under data.text", path);
    return braid_fail(error, BRAID_IO, "cannot read the text '%s': %s", path, strerror(errno));
}

static braid_err file_measure(text_file *file, const char *path, braid_error *error) {
    if (fstat(file->fd, file->seen) != 0) return open_error(path, error);
    if (!S_ISREG(file->seen->st_mode))
        return braid_fail(error, BRAID_IO, "'%s' is %s, not a text file", path, S_ISDIR(file->seen->st_mode) ? "a directory" : "not a regular file");
    if (file->seen->st_size == 0) return braid_fail(error, BRAID_IO, "the text '%s' is empty", path);
    file->count = (uint64_t)file->seen->st_size;
    return BRAID_OK;
}

static braid_err add_file(train_data *data, const char *path, braid_error *error) {
    text_file *file = &data->file[data->file_count++];
    // O_NONBLOCK, because opening a named pipe would block until a writer opens it.
    *file = (text_file){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .path = strdup(path), .begin = data->bytes, .seen = calloc(1, sizeof *file->seen)};
    if (file->fd < 0) return open_error(path, error);
    if (!file->path || !file->seen) return braid_fail(error, BRAID_MEMORY, "no memory for the text '%s'", path);
    braid_err err = file_measure(file, path, error);
    data->bytes += file->count;
    return err;
}

static bool read_file(const text_file *file, uint8_t *bytes, uint64_t count, uint64_t at) {
    while (count > 0) {
        ssize_t n = pread(file->fd, bytes, count, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes += n;
        at += (uint64_t)n;
        count -= (uint64_t)n;
    }
    return true;
}

static bool hash_text(const train_data *data, braid_hash *out) {
    sha256 hash;
    uint8_t bytes[READ_BYTES];
    sha256_init(&hash);
    for (uint32_t i = 0; i < data->file_count; i++) {
        const text_file *file = &data->file[i];
        for (uint64_t at = 0; at < file->count; at += READ_BYTES) {
            uint64_t count = file->count - at < READ_BYTES ? file->count - at : READ_BYTES;
            if (!read_file(file, bytes, count, at)) return false;
            sha256_update(&hash, bytes, (size_t)count);
        }
    }
    *out = sha256_final(&hash);
    return true;
}

static bool is_untouched(const text_file *file) {
    struct stat now;
    return fstat(file->fd, &now) == 0 && now.st_size == file->seen->st_size && now.st_mtim.tv_sec == file->seen->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == file->seen->st_mtim.tv_nsec;
}

// Called when a file's status changed. The content may still match, as for a text to which lines
// are appended.
static bool is_the_same(const train_data *data) {
    braid_hash now;
    for (uint32_t i = 0; i < data->file_count; i++) fstat(data->file[i].fd, data->file[i].seen);
    if (hash_text(data, &now) && hash_equal(&now, &data->hash)) return true;
    // the next sample checks again, in case the text is restored
    for (uint32_t i = 0; i < data->file_count; i++) data->file[i].seen->st_size = -1;
    return false;
}

static braid_err check_length(const train_data *data, double holdout, uint32_t tokens, braid_error *error) {
    uint64_t need = (uint64_t)tokens + 1, held = data->bytes - data->train_bytes;
    if (data->train_bytes < need)
        return braid_fail(error, BRAID_CONFIG,
                          "the text is too short: %llu bytes to train on, one sequence needs %llu; "
                          "add text or lower the tokens of a sequence",
                          (unsigned long long)data->train_bytes, (unsigned long long)need);
    if (holdout > 0 && held < need)
        return braid_fail(error, BRAID_CONFIG,
                          "the held-out text is too short: %llu bytes, one sequence needs %llu; add text, "
                          "raise holdout or set it to 0",
                          (unsigned long long)held, (unsigned long long)need);
    return BRAID_OK;
}

braid_err train_data_open(const char *const *paths, uint32_t count, double holdout, uint32_t tokens, train_data **out,
                          braid_error *error) {
    if (count == 0) return braid_fail(error, BRAID_CONFIG, "no text to train on; name a file under data.text");
    if (!(holdout >= 0 && holdout <= 0.5)) return braid_fail(error, BRAID_CONFIG, "holdout must be between 0 and 0.5");
    train_data *data = calloc(1, sizeof *data + count * sizeof data->file[0]);
    if (!data) return braid_fail(error, BRAID_MEMORY, "no memory for the list of texts");
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < count && !err; i++) err = add_file(data, paths[i], error);
    data->train_bytes = data->bytes - (uint64_t)((double)data->bytes * holdout);
    if (!err) err = check_length(data, holdout, tokens, error);
    if (!err && !hash_text(data, &data->hash)) err = open_error(paths[0], error);
    if (err) {
        train_data_free(data);
        return err;
    }
    *out = data;
    return BRAID_OK;
}

braid_err train_data_open_tokens(train_tokens *sources, uint32_t count, const packed_settings *settings, uint32_t microbatches,
                                 train_data **out, braid_error *error) {
    packed_data *all = NULL;
    braid_err err = packed_open(sources, count, settings, &all, error);
    if (err) return err;
    train_data *data = calloc(1, sizeof *data);
    if (!data) {
        packed_free(all);
        return braid_fail(error, BRAID_MEMORY, "no memory for the list of texts");
    }
    data->packed = all;
    data->microbatches = microbatches;
    data->hash = packed_hash(all);
    *out = data;
    return BRAID_OK;
}

braid_err train_data_join_shares(train_data *const *each, uint32_t count, const train_shares *shares, train_data **out, braid_error *error) {
    train_data *data = calloc(1, sizeof *data);
    if (data) data->share = calloc(count, sizeof(train_data *));
    if (!data || !data->share) {
        free(data);
        for (uint32_t i = 0; i < count; i++) train_data_free(each[i]);
        return braid_fail(error, BRAID_MEMORY, "no memory for the list of texts");
    }
    data->shares = *shares;
    data->share_count = count;
    for (uint32_t i = 0; i < count; i++) data->share[i] = each[i];
    *out = data;
    return BRAID_OK;
}

braid_err train_data_open_shares(const char *const *paths, uint32_t count, const train_shares *shares, double holdout, uint32_t tokens,
                                 train_data **out, braid_error *error) {
    train_data **each = calloc(count ? count : 1, sizeof(train_data *));
    if (!each) return braid_fail(error, BRAID_MEMORY, "no memory for the list of texts");
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < count && !err; i++) err = train_data_open(&paths[i], 1, holdout, tokens, &each[i], error);
    if (!err) err = train_data_join_shares(each, count, shares, out, error);
    else
        for (uint32_t i = 0; i < count; i++) train_data_free(each[i]);
    free(each);
    return err;
}

static const train_data *share_of(const train_data *data, uint32_t m) {
    return data->share ? data->share[m % data->shares.slots % data->share_count] : data;
}

void train_data_free(train_data *data) {
    if (!data) return;
    for (uint32_t i = 0; i < data->share_count; i++) train_data_free(data->share[i]);
    free(data->share);
    packed_free(data->packed);
    for (uint32_t i = 0; i < data->carried_count; i++) free(data->carried[i].text);
    free(data->carried);
    for (uint32_t i = 0; i < data->file_count; i++) {
        if (data->file[i].fd >= 0) close(data->file[i].fd);
        free(data->file[i].path);
        free(data->file[i].seen);
    }
    free(data);
}

uint64_t train_data_size(const train_data *data) {
    uint64_t size = data->packed ? packed_tokens(data->packed) : data->bytes;
    for (uint32_t i = 0; i < data->share_count; i++) size += train_data_size(data->share[i]);
    return size;
}

const packed_data *train_data_packed(const train_data *data) { return share_of(data, 0)->packed; }

void train_data_carry(train_data *data, files_text *files, uint32_t count) {
    data->carried = files;
    data->carried_count = count;
}

const files_text *train_data_carried(const train_data *data, uint32_t *count) {
    const train_data *its = data->carried_count > 0 ? data : share_of(data, 0);
    *count = its->carried_count;
    return its->carried;
}

bool train_data_has_held_out(const train_data *data) {
    const train_data *its = share_of(data, 0);
    return its->packed ? packed_has_held_out(its->packed) : its->train_bytes < its->bytes;
}
braid_hash train_data_hash(const train_data *data) { return share_of(data, 0)->hash; }

// Reads bytes [at, at + tokens] of the text, which may span files. Inputs are the first `tokens` of
// them, targets the last.
static bool copy_text(const train_data *data, uint64_t at, uint32_t tokens, int32_t *inputs, int32_t *targets) {
    uint8_t bytes[READ_BYTES];
    uint32_t file = 0;
    for (uint64_t i = 0; i <= tokens;) {
        while (at + i >= data->file[file].begin + data->file[file].count) file++;
        const text_file *f = &data->file[file];
        uint64_t from = at + i - f->begin, count = f->count - from < tokens + 1 - i ? f->count - from : tokens + 1 - i;
        if (count > sizeof bytes) count = sizeof bytes;
        if (!read_file(f, bytes, count, from)) return false;
        for (uint64_t j = 0; j < count; j++, i++) {
            if (i < tokens) inputs[i] = bytes[j];
            if (i > 0) targets[i - 1] = bytes[j];
        }
        if (!is_untouched(f) && !is_the_same(data)) return false;
    }
    return true;
}

typedef struct text_range {
    uint64_t begin, end;
} text_range;

static bool draw(const train_data *data, text_range range, uint64_t stream, uint32_t sequences, uint32_t tokens,
                 int32_t *inputs, int32_t *targets) {
    BRAID_ASSERT(range.end - range.begin > tokens);
    for (uint32_t s = 0; s < sequences; s++) {
        rng r = {rng_seed(stream, s)};
        uint64_t at = range.begin + rng_below(&r, range.end - range.begin - tokens);
        if (!copy_text(data, at, tokens, inputs + (size_t)s * tokens, targets + (size_t)s * tokens)) return false;
    }
    return true;
}

static bool draw_packed(packed_data *from, bool held_out, uint64_t seed, uint64_t number, uint32_t sequences, uint32_t tokens,
                        int32_t *inputs, int32_t *targets, uint32_t *first) {
    for (uint32_t s = 0; s < sequences; s++) {
        size_t at = (size_t)s * tokens;
        uint32_t *begins = first ? first + at : NULL;
        bool read = held_out ? packed_held_out(from, seed, number + s, inputs + at, targets + at, begins)
                             : packed_sequence(from, seed, number + s, inputs + at, targets + at, begins);
        if (!read) return false;
    }
    return true;
}

static void no_documents(uint32_t *first, size_t count) {
    if (first) memset(first, 0, count * sizeof *first);
}

bool train_data_sample(const train_data *data, uint64_t seed, uint64_t iteration, uint32_t m, uint32_t sequences,
                       uint32_t tokens, int32_t *inputs, int32_t *targets, uint32_t *first) {
    uint64_t stream = rng_seed(rng_seed(rng_seed(seed, STREAM_TRAIN), iteration), m);
    const train_data *its = share_of(data, m);
    if (its->packed) {
        uint64_t number = (iteration * its->microbatches + m) * sequences;
        return draw_packed(its->packed, false, seed, number, sequences, tokens, inputs, targets, first);
    }
    no_documents(first, (size_t)sequences * tokens);
    return draw(its, (text_range){0, its->train_bytes}, stream, sequences, tokens, inputs, targets);
}

bool train_data_held_out(const train_data *data, uint64_t seed, uint32_t m, uint32_t sequences, uint32_t tokens,
                         int32_t *inputs, int32_t *targets, uint32_t *first) {
    uint64_t stream = rng_seed(rng_seed(seed, STREAM_HELD_OUT), m);
    const train_data *its = share_of(data, m + data->shares.microbatches);
    if (its->packed) return draw_packed(its->packed, true, seed, (uint64_t)m * sequences, sequences, tokens, inputs, targets, first);
    no_documents(first, (size_t)sequences * tokens);
    return draw(its, (text_range){its->train_bytes, its->bytes}, stream, sequences, tokens, inputs, targets);
}

void train_data_why(const train_data *data, braid_error *error) {
    const train_data *all = data;
    for (uint32_t i = 0; i < all->share_count; i++)
        if (all->share[i]->packed ? packed_failed(all->share[i]->packed) : !is_the_same(all->share[i])) data = all->share[i];
    if (data->packed) {
        packed_why(data->packed, error);
        return;
    }
    const text_file *file = data->file;
    braid_fail(error, BRAID_IO, "the text%s '%s' %s not what the run began with any more: the file was changed, or the disk fails; restore it and start this peer again",
               data->file_count > 1 ? "s from" : "", data->file_count > 0 ? file->path : "?", data->file_count > 1 ? "on are" : "is");
}
