#include "node/carried.h"

#include "data/ends.h"
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_OTHER_BYTES = 4 << 20, TOKENIZER_FILE = 0, CONFIG_FILE = 1, GENERATION_FILE = 2 };

static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                                    "special_tokens_map.json", "chat_template.jinja"};
enum { NAMES = sizeof names / sizeof *names };

void carried_free(files_text *files, uint32_t count) {
    for (uint32_t i = 0; files && i < count; i++) free(files[i].text);
    free(files);
}

// The directory of the tokenizer's files.
static void directory_of(const char *path, char out[FILES_MAX_PATH]) {
    struct stat about;
    snprintf(out, FILES_MAX_PATH, "%s", path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    else
        strcpy(out, ".");
}

static braid_err read_one(const char *directory, size_t which, files_text *out, braid_error *error) {
    char path[FILES_MAX_PATH];
    braid_err err = files_join(directory, names[which], path, error);
    if (err) return err;
    if (which != TOKENIZER_FILE && access(path, F_OK) != 0) return BRAID_OK;
    snprintf(out->name, sizeof out->name, "%s", names[which]);
    return files_read(path, which == TOKENIZER_FILE ? TOKENIZER_MAX_FILE_BYTES : MAX_OTHER_BYTES, &out->text,
                      &out->length, error);
}

// A token's text, 0-terminated; false: none, or one that is too long for a special token.
static bool token_text(const tokenizer *t, uint32_t id, char out[256]) {
    size_t length = 0;
    const char *text = id == TOKENIZER_NO_ID ? NULL : tokenizer_token(t, id, &length);
    if (!text || length >= 256) return false;
    memcpy(out, text, length);
    out[length] = 0;
    return true;
}

static void make_config(const tokenizer *t, uint32_t end, uint32_t context, files_text *out) {
    char text[256];
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "tokenizer_class", "PreTrainedTokenizerFast");
    json_out_bool(&o, "clean_up_tokenization_spaces", false);
    if (token_text(t, tokenizer_bos(t), text)) json_out_string(&o, "bos_token", text);
    if (token_text(t, end, text)) json_out_string(&o, "eos_token", text);
    json_out_u64(&o, "model_max_length", context);
    json_out_close(&o, '}');
    out->text = json_out_take(&o, &out->length);
}

static void make_generation(const tokenizer *t, uint32_t end, files_text *out) {
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    if (tokenizer_bos(t) != TOKENIZER_NO_ID) json_out_u64(&o, "bos_token_id", tokenizer_bos(t));
    json_out_u64(&o, "eos_token_id", end);
    json_out_close(&o, '}');
    out->text = json_out_take(&o, &out->length);
}

static braid_err make_missing(const tokenizer *t, const char *end, uint32_t context, files_text *files,
                              braid_error *error) {
    data_ends ends;
    braid_err err = data_ends_find(t, end, &ends, error);
    if (err) return err;
    if (!files[CONFIG_FILE].text) make_config(t, ends.end, context, &files[CONFIG_FILE]);
    if (!files[GENERATION_FILE].text) make_generation(t, ends.end, &files[GENERATION_FILE]);
    if (!files[CONFIG_FILE].text || !files[GENERATION_FILE].text)
        return braid_fail(error, BRAID_MEMORY, "no memory for the tokenizer's files");
    strcpy(files[CONFIG_FILE].name, names[CONFIG_FILE]);
    strcpy(files[GENERATION_FILE].name, names[GENERATION_FILE]);
    return BRAID_OK;
}

braid_err carried_read(const char *path, const tokenizer *t, const char *end, uint32_t context, files_text **out,
                       uint32_t *count, braid_error *error) {
    char directory[FILES_MAX_PATH];
    files_text *files = calloc(NAMES, sizeof *files);
    if (!files) return braid_fail(error, BRAID_MEMORY, "no memory for the tokenizer's files");
    directory_of(path, directory);
    braid_err err = BRAID_OK;
    for (size_t i = 0; i < NAMES && !err; i++) err = read_one(directory, i, &files[i], error);
    if (!err) err = make_missing(t, end, context, files, error);
    if (err) {
        carried_free(files, NAMES);
        return err;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < NAMES; i++)
        if (files[i].text) files[kept++] = files[i];
    *out = files;
    *count = kept;
    return BRAID_OK;
}
