// Writes what was trained as tokenizer.json.
#include "text/train_inside.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

// Texts of all tokens as characters for bytes, each ended at ends[id].
typedef struct spelling {
    buffer text;
    size_t *ends;
} spelling;

static void spell(spelling *s, const training *t, uint32_t id) {
    if (id < TRAIN_FIRST_MERGE) {
        buffer_char(&s->text, byte_char(t->bytes_in_order[id - TRAIN_FIRST_BYTE]));
    } else {
        uint64_t pair;
        memcpy(&pair, t->merged.at + (id - TRAIN_FIRST_MERGE) * sizeof pair, sizeof pair);
        for (int i = 0; i < 2; i++) {
            uint32_t part = i == 0 ? (uint32_t)(pair >> 32) : (uint32_t)pair;
            size_t from = s->ends[part - 1], length = s->ends[part] - from;
            if (!buffer_room(&s->text, length)) return;
            memcpy(s->text.at + s->text.count, s->text.at + from, length);
            s->text.count += length;
        }
    }
    s->ends[id] = s->text.count;
}

static void put(buffer *out, const char *text) { buffer_add(out, text, strlen(text)); }

static void put_token(buffer *out, const spelling *s, uint32_t id) {
    buffer_byte(out, '"');
    for (size_t i = s->ends[id - 1]; i < s->ends[id]; i++) {
        if (s->text.at[i] == '"' || s->text.at[i] == '\\') buffer_byte(out, '\\');
        buffer_byte(out, s->text.at[i]);
    }
    buffer_byte(out, '"');
}

static void put_file(buffer *out, const training *t, const spelling *s) {
    static const char byte_level[] =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}";
    char number[40];
    put(out,
        "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [\n"
        "    {\"id\": 0, \"content\": \"<|endoftext|>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}\n  ],\n  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    put(out, byte_level);
    put(out, ",\n  \"post_processor\": null,\n  \"decoder\": ");
    put(out, byte_level);
    put(out,
        ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
        "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
        "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {\n      \"<|endoftext|>\": 0");
    for (uint32_t id = 1; id < TRAIN_FIRST_MERGE + t->merges; id++) {
        put(out, ",\n      ");
        put_token(out, s, id);
        snprintf(number, sizeof number, ": %u", (unsigned)id);
        put(out, number);
    }
    put(out, "\n    },\n    \"merges\": [");
    for (uint32_t i = 0; i < t->merges; i++) {
        uint64_t pair;
        memcpy(&pair, t->merged.at + i * sizeof pair, sizeof pair);
        put(out, i ? ",\n      [" : "\n      [");
        put_token(out, s, (uint32_t)(pair >> 32));
        put(out, ", ");
        put_token(out, s, (uint32_t)pair);
        put(out, "]");
    }
    put(out, "\n    ]\n  }\n}\n");
}

static braid_err write_file(const char *directory, const char *name, const char *bytes, size_t count,
                            braid_error *error) {
    char path[4096], part[4096 + 8];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return braid_fail(error, BRAID_LIMIT, "a path is too long");
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "wb");
    bool fine = file && fwrite(bytes, 1, count, file) == count && fflush(file) == 0;
    int why = errno;
    if (file && fclose(file) != 0) fine = false;
    if (fine && rename(part, path) == 0) return BRAID_OK;
    if (fine) why = errno;
    remove(part);
    return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(why));
}

braid_err train_write(const training *t, const char *directory, braid_error *error) {
    static const char config[] = "{\n  \"bos_token\": \"<|endoftext|>\",\n  \"eos_token\": \"<|endoftext|>\",\n"
                                 "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";
    spelling s = {.ends = calloc(TRAIN_FIRST_MERGE + t->merges, sizeof *s.ends)};
    buffer out = {0};
    braid_err err = s.ends ? BRAID_OK : text_no_memory(error);
    for (uint32_t id = 1; !err && id < TRAIN_FIRST_MERGE + t->merges; id++) spell(&s, t, id);
    if (!err) put_file(&out, t, &s);
    if (!err && (s.text.failed || out.failed)) err = text_no_memory(error);
    if (!err && mkdir(directory, 0777) != 0 && errno != EEXIST)
        err = braid_fail(error, BRAID_IO, "cannot make %s: %s", directory, strerror(errno));
    if (!err) err = write_file(directory, "tokenizer.json", out.at, out.count, error);
    if (!err) err = write_file(directory, "tokenizer_config.json", config, sizeof config - 1, error);
    buffer_free(&s.text);
    buffer_free(&out);
    free(s.ends);
    return err;
}
