#include "weights/convert_inside.h"

#include <stdlib.h>
#include <string.h>

// Contractions, digits, spaces, newlines, letters of several scripts, marks, symbols, numbers that
// are no digits, code.
static const char *const samples[] = {
    "The quick brown fox doesn't jump; it's 12345 o'clock, and WE'LL see: I'M, you're, they'd've.",
    "  two  spaces,\ttabs\t\tand\n\nlines \n \r\n end   ",
    "3.14159 1 22 333 4444 55555 2024-11-27 x1y22z333 ½ ² ٣٤٥",
    "Größe, naïve, façade, œuvre, Ångström, señor; Ελληνικά ΑΣ, Привет мир, שלום עולם, مرحبا بالعالم",
    "你好，世界。これはテストです。한국어 문장 ไทย हिन्दी नमस्ते",
    "emoji 👍🏽 👩‍👩‍👧 🇫🇷 ∑∫√≠ €$¥£ «quotes» “curly” ‘single’ — … •",
    "for (int i = 0; i < n; i++) { a[i] += b->c * 2; }  // ok\n#include <x.h>\n\tif __name__ == '__main__': pass",
    "camelCaseWord HTTPServer snake_case_word kebab-case /usr/bin/env http://example.org/a?b=c&d=%20",
    "!!! ??? ... --- ___ === +++ ((())) [[{{}}]] @#$%^&*~`|\\\"'",
    "A\xc2\xa0no-break\xe2\x80\xafspace\xe3\x80\x80wide \xe2\x80\x8bzero",
    "x",
    " x",
    "\n",
    " ",
    "'s 's'S 'Re",
    "a\nb\n\n\nc",
    "word\n",
    "1234567890123",
    "  2 s,   3 · 2^30",
};

static braid_err encode(tokenizer_encoder *e, const char *text, unsigned flags, tokenizer_ids *ids,
                        braid_error *error) {
    ids->count = 0;
    return tokenizer_encode(e, text, strlen(text), flags, ids, error);
}

static braid_err compare(tokenizer_encoder *a, tokenizer_encoder *b, tokenizer_ids ids[2], bool *agree,
                         braid_error *error) {
    braid_err err = BRAID_OK;
    for (size_t i = 0; i < 2 * sizeof samples / sizeof *samples && *agree && !err; i++) {
        unsigned flags = i % 2 ? TOKENIZER_ADD_SPECIAL : 0;
        err = encode(a, samples[i / 2], flags, &ids[0], error);
        if (!err) err = encode(b, samples[i / 2], flags, &ids[1], error);
        if (!err)
            *agree = ids[0].count == ids[1].count &&
                     memcmp(ids[0].at, ids[1].at, ids[0].count * sizeof *ids[0].at) == 0;
    }
    return err;
}

braid_err tokenizers_agree(const tokenizer *a, const tokenizer *b, bool *agree, braid_error *error) {
    tokenizer_encoder *first = tokenizer_encoder_new(a), *second = tokenizer_encoder_new(b);
    tokenizer_ids ids[2] = {{0}, {0}};
    *agree = true;
    braid_err err = first && second ? compare(first, second, ids, agree, error)
                                    : braid_fail(error, BRAID_MEMORY, "no memory for a tokenizer");
    tokenizer_ids_free(&ids[0]);
    tokenizer_ids_free(&ids[1]);
    tokenizer_encoder_free(first);
    tokenizer_encoder_free(second);
    return err;
}
