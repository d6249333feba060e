// Reads a vocabulary in the plain form of tools/check-gguf-vocab from a file, texts from standard input, and prints their ids:
// what src/text makes of the arrays of a GGUF file. Numbers are little-endian; a text is u32 bytes and the bytes.
//     tokenize-vocabulary FILE < texts
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t read_u32(FILE *f) {
    uint32_t n = 0;
    if (fread(&n, 4, 1, f) != 1) exit(3);
    return n;
}

static tokenizer_text read_text(FILE *f) {
    uint32_t n = read_u32(f);
    char *at = calloc(1, (size_t)n + 1);
    if (!at || fread(at, 1, n, f) != n) exit(3);
    return (tokenizer_text){at, n};
}

static tokenizer_text *read_texts(FILE *f, uint32_t *count) {
    *count = read_u32(f);
    tokenizer_text *all = calloc((size_t)*count + 1, sizeof *all);
    if (!all) exit(3);
    for (uint32_t i = 0; i < *count; i++) all[i] = read_text(f);
    return all;
}

static void *read_numbers(FILE *f, uint32_t count) {
    if (read_u32(f) == 0) return NULL;
    void *at = malloc((size_t)count * 4 + 4);
    if (!at || fread(at, 4, count, f) != count) exit(3);
    return at;
}

int main(int argc, char **argv) {
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    tokenizer_vocabulary v = {0};
    tokenizer *t = NULL;
    braid_error error = {0};
    if (!f) return 3;
    v.model = read_text(f).at;
    tokenizer_text pre = read_text(f);
    v.pre = pre.length ? pre.at : NULL;
    v.tokens = read_texts(f, &v.count);
    v.scores = read_numbers(f, v.count);
    v.types = read_numbers(f, v.count);
    v.merges = read_texts(f, &v.merge_count);
    if (!v.merge_count) v.merges = NULL;
    v.bos = read_u32(f), v.eos = read_u32(f), v.unknown = read_u32(f), v.separator = read_u32(f),
    v.classifier = read_u32(f);
    v.add_bos = (int)read_u32(f), v.add_eos = (int)read_u32(f), v.add_space_prefix = (int)read_u32(f);
    if (tokenizer_from_vocabulary(&v, &t, &error)) return fprintf(stderr, "%s\n", error.text), 1;
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    tokenizer_ids ids = {0};
    uint32_t n;
    while (fread(&n, 4, 1, stdin) == 1) {
        char *text = malloc((size_t)n + 1);
        if (!text || fread(text, 1, n, stdin) != n) return 3;
        ids.count = 0;
        if (tokenizer_encode(e, text, n, 0, &ids, &error)) return fprintf(stderr, "%s\n", error.text), 1;
        for (size_t i = 0; i < ids.count; i++) printf("%u ", (unsigned)ids.at[i]);
        printf("\n");
        free(text);
    }
    return 0;
}
