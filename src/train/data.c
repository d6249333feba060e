#include "train/data.h"

#include "base/rng.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// What a sample's position is drawn for, so that training and evaluation are different streams of one seed.
enum { STREAM_TRAIN = 0x7472, STREAM_HELD_OUT = 0x686f };

typedef struct text_file {
    uint8_t *bytes;
    uint64_t begin, count;  // place in the whole text
} text_file;

struct train_data {
    uint64_t bytes, train_bytes;  // [train_bytes, bytes) is held out
    braid_hash hash;
    train_data **share;  // private data: each data peer's; then nothing else here is used but their number
    uint32_t share_count;
    train_shares shares;
    uint32_t file_count;
    text_file file[];
};

static braid_err open_error(const char *path, braid_error *error) {
    if (errno == ENOENT)
        return braid_fail(error, BRAID_IO, "no text at '%s'; name an existing file under data.text", path);
    return braid_fail(error, BRAID_IO, "cannot read the text '%s': %s", path, strerror(errno));
}

static braid_err map_file(int fd, const char *path, uint64_t begin, text_file *out, braid_error *error) {
    struct stat info;
    if (fstat(fd, &info) != 0) return open_error(path, error);
    if (!S_ISREG(info.st_mode))
        return braid_fail(error, BRAID_IO, "'%s' is %s, not a text file", path,
                          S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    if (info.st_size == 0) return braid_fail(error, BRAID_IO, "the text '%s' is empty", path);
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) return open_error(path, error);
    *out = (text_file){.bytes = bytes, .begin = begin, .count = (uint64_t)info.st_size};
    return BRAID_OK;
}

static braid_err add_file(train_data *data, const char *path, braid_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return open_error(path, error);
    text_file *file = &data->file[data->file_count];
    braid_err err = map_file(fd, path, data->bytes, file, error);
    close(fd);
    if (err) return err;
    data->file_count++;
    data->bytes += file->count;
    return BRAID_OK;
}

static braid_hash hash_text(const train_data *data) {
    sha256 hash;
    sha256_init(&hash);
    for (uint32_t i = 0; i < data->file_count; i++) {
        sha256_update(&hash, data->file[i].bytes, (size_t)data->file[i].count);
        // The pages were read once; samples fetch the few they need again.
        madvise(data->file[i].bytes, (size_t)data->file[i].count, MADV_DONTNEED);
    }
    return sha256_final(&hash);
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
    if (err) {
        train_data_free(data);
        return err;
    }
    data->hash = hash_text(data);
    *out = data;
    return BRAID_OK;
}

braid_err train_data_open_shares(const char *const *paths, uint32_t count, const train_shares *shares, double holdout, uint32_t tokens,
                                 train_data **out, braid_error *error) {
    train_data *data = calloc(1, sizeof *data);
    if (data) data->share = calloc(count, sizeof(train_data *));
    if (!data || !data->share) {
        free(data);
        return braid_fail(error, BRAID_MEMORY, "no memory for the list of texts");
    }
    data->shares = *shares;
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < count && !err; i++) {
        err = train_data_open(&paths[i], 1, holdout, tokens, &data->share[i], error);
        data->share_count += !err;
    }
    if (err) train_data_free(data);
    else *out = data;
    return err;
}

static const train_data *share_of(const train_data *data, uint32_t m) {
    return data->share ? data->share[m % data->shares.slots % data->share_count] : data;
}

void train_data_free(train_data *data) {
    if (!data) return;
    for (uint32_t i = 0; i < data->share_count; i++) train_data_free(data->share[i]);
    free(data->share);
    for (uint32_t i = 0; i < data->file_count; i++) munmap(data->file[i].bytes, (size_t)data->file[i].count);
    free(data);
}

uint64_t train_data_bytes(const train_data *data) {
    uint64_t bytes = data->bytes;
    for (uint32_t i = 0; i < data->share_count; i++) bytes += data->share[i]->bytes;
    return bytes;
}
bool train_data_has_held_out(const train_data *data) { return share_of(data, 0)->train_bytes < share_of(data, 0)->bytes; }
braid_hash train_data_hash(const train_data *data) { return share_of(data, 0)->hash; }

// Bytes [at, at + tokens] of the text, which may span files: inputs are the first `tokens`, targets the last.
static void copy_text(const train_data *data, uint64_t at, uint32_t tokens, int32_t *inputs, int32_t *targets) {
    uint32_t file = 0;
    for (uint64_t i = 0; i <= tokens; i++) {
        while (at + i >= data->file[file].begin + data->file[file].count) file++;
        uint8_t byte = data->file[file].bytes[at + i - data->file[file].begin];
        if (i < tokens) inputs[i] = byte;
        if (i > 0) targets[i - 1] = byte;
    }
}

typedef struct text_range {
    uint64_t begin, end;
} text_range;

static void draw(const train_data *data, text_range range, uint64_t stream, uint32_t sequences, uint32_t tokens,
                 int32_t *inputs, int32_t *targets) {
    BRAID_ASSERT(range.end - range.begin > tokens);
    for (uint32_t s = 0; s < sequences; s++) {
        rng r = {rng_seed(stream, s)};
        uint64_t at = range.begin + rng_below(&r, range.end - range.begin - tokens);
        copy_text(data, at, tokens, inputs + (size_t)s * tokens, targets + (size_t)s * tokens);
    }
}

void train_data_sample(const train_data *data, uint64_t seed, uint64_t iteration, uint32_t m, uint32_t sequences,
                       uint32_t tokens, int32_t *inputs, int32_t *targets) {
    uint64_t stream = rng_seed(rng_seed(rng_seed(seed, STREAM_TRAIN), iteration), m);
    const train_data *its = share_of(data, m);
    draw(its, (text_range){0, its->train_bytes}, stream, sequences, tokens, inputs, targets);
}

void train_data_held_out(const train_data *data, uint64_t seed, uint32_t m, uint32_t sequences, uint32_t tokens,
                         int32_t *inputs, int32_t *targets) {
    uint64_t stream = rng_seed(rng_seed(seed, STREAM_HELD_OUT), m);
    const train_data *its = share_of(data, m + data->shares.microbatches);
    draw(its, (text_range){its->train_bytes, its->bytes}, stream, sequences, tokens, inputs, targets);
}
