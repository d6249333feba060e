// Runs a fuzz target without libFuzzer: deterministic random inputs and mutations of its examples.
//     fuzz_x_replay [--runs N] [--seed N] [--seconds N]   inputs 0 .. N-1 of a seed
//     fuzz_x_replay --only N [--seed N]                   one of them again
//     fuzz_x_replay FILE...                               inputs in files
//     fuzz_x_replay --examples DIRECTORY                  writes examples, a first corpus for libFuzzer
#include "fuzz.h"

#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EXAMPLES = 200 };

typedef struct options {
    uint64_t runs, seed, seconds, only;
    bool has_only;
    const char *examples;
} options;

static uint8_t input[FUZZ_MAX_BYTES];

// For the message after a crash. The text is prepared before the target runs, because a signal
// handler may only write it.
static char where[128];

static void on_crash(int number) {
    ssize_t ignored = write(STDERR_FILENO, where, strlen(where));
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

static size_t random_input(rng *r) {
    size_t count = rng_below(r, rng_below(r, 8) == 0 ? 4096 : 128);
    for (size_t i = 0; i < count; i++) input[i] = (uint8_t)rng_next(r);
    return count;
}

// Boundary values of counts and lengths.
static uint8_t edge(rng *r) {
    static const uint8_t edges[] = {0, 1, 2, 7, 8, 0x1f, 0x20, 0x21, 0x40, 0x41, 0x7f, 0x80, 0xfe, 0xff, '"', '{', '\n'};
    return edges[rng_below(r, sizeof edges)];
}

static void move_tail(size_t from, size_t to, size_t *count) {
    memmove(input + to, input + from, *count - from);
    *count = *count - from + to;
}

static void mutate_once(rng *r, size_t *count) {
    if (*count == 0) return;
    size_t at = rng_below(r, *count), length = 1 + rng_below(r, 8);
    if (length > *count - at) length = *count - at;
    switch (rng_below(r, 8)) {
    case 0: input[at] ^= (uint8_t)(1u << rng_below(r, 8)); break;
    case 1: input[at] = (uint8_t)rng_next(r); break;
    case 2: input[at] = edge(r); break;
    case 3: memset(input + at, edge(r), length); break;
    case 4: move_tail(at + length, at, count); break;  // bytes go
    case 5:  // repeats bytes
        if (*count + length <= sizeof input) move_tail(at, at + length, count);
        break;
    case 6: *count = at; break;
    default: {  // copies bytes from another place
        size_t other = rng_below(r, *count - length + 1);
        memmove(input + at, input + other, length);
    }
    }
}

static size_t make_input(uint64_t seed, uint64_t number) {
    rng r = {rng_seed(seed, number)};
    size_t count = 0;
    if (fuzz_example != NULL && rng_below(&r, 16) != 0) count = fuzz_example(rng_below(&r, 1 << 20), input, sizeof input);
    if (count == 0) return random_input(&r);
    uint64_t mutations = rng_below(&r, 8);  // 0: the unchanged example
    for (uint64_t i = 0; i < mutations; i++) mutate_once(&r, &count);
    return count;
}

// The input is a block of exactly its size, so that a sanitizer sees reads beyond its end.
static void run_input(size_t count) {
    uint8_t *exact = malloc(count > 0 ? count : 1);
    FUZZ_CHECK(exact != NULL);
    memcpy(exact, input, count);
    FUZZ_CHECK(LLVMFuzzerTestOneInput(exact, count) == 0);
    free(exact);
}

static void run_number(const char *program, uint64_t seed, uint64_t number) {
    snprintf(where, sizeof where, "repeat with: %s --seed %" PRIu64 " --only %" PRIu64 "\n", program, seed, number);
    run_input(make_input(seed, number));
}

static int run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    size_t count = fread(input, 1, sizeof input, file);
    fclose(file);
    snprintf(where, sizeof where, "in %.100s\n", path);
    run_input(count);
    return 0;
}

static int write_examples(const char *directory) {
    if (fuzz_example == NULL) return 0;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "%s: %s\n", directory, strerror(errno));
        return 1;
    }
    for (uint64_t i = 0; i < EXAMPLES; i++) {
        size_t count = fuzz_example(i, input, sizeof input);
        char path[1024];
        snprintf(path, sizeof path, "%s/example-%" PRIu64, directory, i);
        FILE *file = count > 0 ? fopen(path, "wb") : NULL;
        if (count > 0 && (file == NULL || fwrite(input, 1, count, file) != count)) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            return 1;
        }
        if (file != NULL) fclose(file);
    }
    return 0;
}

static int run_all(const char *program, const options *o) {
    time_t end = time(NULL) + (time_t)o->seconds;
    uint64_t done = 0;
    while (done < o->runs && (done % 64 != 0 || time(NULL) <= end)) run_number(program, o->seed, done++);
    printf("%s: %" PRIu64 " inputs of seed %" PRIu64 "%s\n", program, done, o->seed,
           done < o->runs ? " (stopped by its time limit)" : "");
    return done > 0 ? 0 : 1;
}

// Parses one option; returns the number of arguments used, 0 for a file.
static int read_option(options *o, char **argv, int left) {
    if (strncmp(argv[0], "--", 2) != 0) return 0;
    const char *value = left > 1 ? argv[1] : "";
    uint64_t number = strtoull(value, NULL, 0);
    if (strcmp(argv[0], "--runs") == 0) {
        o->runs = number;
    } else if (strcmp(argv[0], "--seed") == 0) {
        o->seed = number;
    } else if (strcmp(argv[0], "--seconds") == 0) {
        o->seconds = number;
    } else if (strcmp(argv[0], "--only") == 0) {
        o->only = number;
        o->has_only = true;
    } else if (strcmp(argv[0], "--examples") == 0) {
        o->examples = value;
    } else {
        fprintf(stderr, "unknown option %s\n", argv[0]);
        exit(2);
    }
    return 2;
}

int main(int argc, char **argv) {
    options o = {.runs = 20000, .seed = 1, .seconds = 10};
    signal(SIGABRT, on_crash);
    signal(SIGSEGV, on_crash);
    int status = 0, files = 0;
    for (int i = 1; i < argc;) {
        int taken = read_option(&o, argv + i, argc - i);
        if (taken == 0) {
            status |= run_file(argv[i]);
            files++;
            taken = 1;
        }
        i += taken;
    }
    if (files > 0) return status;
    if (o.examples != NULL) return write_examples(o.examples);
    if (o.has_only) {
        run_number(argv[0], o.seed, o.only);
        return 0;
    }
    return run_all(argv[0], &o);
}
