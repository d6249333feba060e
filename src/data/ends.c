#include "data/ends.h"

#include <string.h>

static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",  "<eos>",
                                    "<|eos|>",       "<|end|>",         "[EOS]", "[SEP]"};

static uint32_t find_end(const tokenizer *t, const char *end) {
    uint32_t id = end && *end ? tokenizer_id(t, end, strlen(end)) : tokenizer_eos(t);
    if (end && *end) return id;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && id == TOKENIZER_NO_ID; i++)
        id = tokenizer_id(t, usual[i], strlen(usual[i]));
    return id;
}

static braid_err find_begin(const tokenizer *t, uint32_t *begin, braid_error *error) {
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    tokenizer_ids ids = {0};
    if (!e) return braid_fail(error, BRAID_MEMORY, "no memory for the tokenizer");
    braid_err err = tokenizer_encode(e, "", 0, TOKENIZER_ADD_SPECIAL, &ids, error);
    *begin = !err && ids.count > 0 && ids.at[0] == tokenizer_bos(t) ? ids.at[0] : TOKENIZER_NO_ID;
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
    return err;
}

braid_err data_ends_find(const tokenizer *t, const char *end, data_ends *out, braid_error *error) {
    *out = (data_ends){TOKENIZER_NO_ID, 0};
    if (!t) return BRAID_OK;
    out->end = find_end(t, end);
    if (out->end == TOKENIZER_NO_ID && end && *end)
        return braid_fail(error, BRAID_CONFIG, "the tokenizer has no token '%.100s' (data.end)", end);
    if (out->end == TOKENIZER_NO_ID)
        return braid_fail(error, BRAID_CONFIG,
                          "the tokenizer does not say which token ends a document; set data.end to that token's text");
    return find_begin(t, &out->begin, error);
}
