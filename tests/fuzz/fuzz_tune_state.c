// Any bytes as the saved state of tuning: it is refused with a sentence, or read whole.
#include "fuzz.h"

#include "tune/state.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 8 };
static const char settings[] = "{\"seed\": 1, \"rank\": 4}";

// The directory of this process.
static const char *directory(void) {
    static char path[64];
    if (path[0]) return path;
    snprintf(path, sizeof path, "/tmp/braid-fuzz-state-%ld", (long)getpid());
    mkdir(path, 0700);
    return path;
}

static void file_path(char path[128]) { snprintf(path, 128, "%s/%s", directory(), TUNE_STATE_FILE); }

static void leave(void) {
    char path[128];
    file_path(path);
    unlink(path);
    rmdir(directory());
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    tune_state s;
    char path[128];
    file_path(path);
    FUZZ_CHECK(!tune_state_new(COUNT, &s, NULL));
    s.iteration = number;
    s.best_loss = (double)number / 3;
    for (int i = 0; i < COUNT; i++) s.now[i] = (float)i;
    FUZZ_CHECK(!tune_state_save(&s, settings, directory(), NULL));
    tune_state_free(&s);
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL);
    size_t length = fread(bytes, 1, capacity, file);
    fclose(file);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool registered;
    char path[128];
    if (!registered) registered = atexit(leave) == 0;
    file_path(path);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(data, 1, size, file) == size);
    fclose(file);
    tune_state s;
    bool there = false;
    braid_error error = {0};
    FUZZ_CHECK(!tune_state_new(COUNT, &s, NULL));
    braid_err err = tune_state_load(&s, settings, directory(), &there, &error);
    FUZZ_CHECK(there && (err == BRAID_OK || error.text[0]));
    if (!err) FUZZ_CHECK(s.best_loss == s.best_loss);
    tune_state_free(&s);
    return 0;
}
