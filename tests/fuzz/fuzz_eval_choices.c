// Multiple-choice tasks from files: no text harms the reader, and an accepted task is consistent.
#include "fuzz.h"

#include "base/rng.h"
#include "eval/choices.h"

#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const ends[] = {"\n", "\r\n", "\n \n", "\n\t\n"};
    rng r = {rng_seed(19, number)};
    size_t length = 0;
    for (uint64_t i = rng_below(&r, 5); i > 0; i--)
        length += (size_t)snprintf(
            (char *)bytes + length, capacity - length,
            "{\"query\": \"q\\u00e9 %u\", \"choices\": [\" a\", \" b b\"%s], \"gold\": %u, \"x\": null}%s", (unsigned)i,
            rng_below(&r, 2) ? ", \" c\"" : "", (unsigned)rng_below(&r, 3), ends[rng_below(&r, 4)]);
    return length;
}

static void check(const choice_task *t) {
    double *scores = calloc(t->choices + 1, sizeof *scores);
    uint32_t choices = 0;
    FUZZ_CHECK(scores != NULL && t->count > 0 && strcmp(t->name, "file") == 0);
    for (uint32_t i = 0; i < t->count; i++) {
        const choice_item *item = &t->items[i];
        FUZZ_CHECK(item->count >= 2 && item->count <= CHOICES_MAX_OPTIONS && item->gold < item->count &&
                   item->first == choices);
        FUZZ_CHECK(item->query[0] != 0);
        for (uint32_t c = 0; c < item->count; c++) FUZZ_CHECK(item->choices[c][0] != 0);
        choices += item->count;
    }
    FUZZ_CHECK(choices == t->choices);
    FUZZ_CHECK(choices_result(t, scores).items == t->count);
    free(scores);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char empty[1] = {0};
    FILE *file = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "rb") : fmemopen(empty, 1, "rb");
    choice_task t;
    braid_error error = {0};
    FUZZ_CHECK(file != NULL);
    braid_err err = choice_task_read_file(file, "/a/file.jsonl", &t, &error);
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (!err) check(&t);
    choice_task_free(&t);
    fclose(file);
    return 0;
}
