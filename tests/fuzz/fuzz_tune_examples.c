// Any bytes as examples for tuning: each example fits, and has a token that counts after its first.
#define _GNU_SOURCE  // memfd_create
#include "fuzz.h"

#include "base/rng.h"
#include "tune/examples.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONGEST = 24 };

static const char vocabulary[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<end>\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":false,\"normalized\":false}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},\"post_processor\":null,\"decoder\":{"
    "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},\"model\":{"
    "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\":\":3},\"merges\":[]}}";
static const char source[] = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<end>{% endfor %}"
                             "{% if add_generation_prompt %}a:{% endif %}";

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const rows[] = {
        "{\"text\": \"abc\"}\n", "{\"prompt\": \"ab\", \"completion\": \"c\"}\n",
        "{\"messages\": [{\"role\": \"c\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n",
        "{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"b\", \"content\": null}]}\n",
        "{\"text\": \"abcabcabcabcabcabcabcabcabcabcabc\"}\n"};
    rng r = {rng_seed(83, number)};
    size_t n = 0;
    for (uint64_t i = rng_below(&r, 10); i > 0; i--) {
        const char *row = rows[rng_below(&r, sizeof rows / sizeof *rows)];
        if (n + strlen(row) > capacity) break;
        memcpy(bytes + n, row, strlen(row));
        n += strlen(row);
    }
    return n;
}

static void check(const tune_examples *e) {
    for (uint32_t i = 0; i < e->count; i++) {
        uint64_t first = examples_begin(e, i), end = e->ends[i];
        bool any = false;
        FUZZ_CHECK(end >= first + 2 && end - first <= LONGEST && end <= e->ids.count && !e->learned[first]);
        for (uint64_t k = first; k < end; k++) any = any || e->learned[k];
        FUZZ_CHECK(any);
    }
}

static void read_as(const char *path, const tokenizer *t, tokenizer_encoder *encoder, const chat_template *template_) {
    const examples_source s = {
        .path = path, .tokenizer = t, .encoder = encoder, .template_ = template_, .longest = LONGEST};
    tune_examples e = {0};
    braid_error error = {0};
    braid_err err = examples_read(&e, &s, &error);
    FUZZ_CHECK(err ? error.text[0] : e.count > 0);
    check(&e);
    examples_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tokenizer *t;
    static tokenizer_encoder *encoder;
    static chat_template *template_;
    if (!t) FUZZ_CHECK(!tokenizer_parse(vocabulary, sizeof vocabulary - 1, &t, NULL));
    if (!encoder) FUZZ_CHECK((encoder = tokenizer_encoder_new(t)) != NULL);
    if (!template_) FUZZ_CHECK(!chat_template_parse(source, sizeof source - 1, &template_, NULL));
    char path[64];
    int fd = memfd_create("examples", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_as(path, t, encoder, template_);
    read_as(path, NULL, NULL, NULL);
    close(fd);
    return 0;
}
