#include "format/hf_tokenizer.h"

#include "format/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BYTES = 256, FIRST_REPLACEMENT = 256 };

// Printable bytes of Latin-1 map to themselves, the others to U+0100, U+0101, ... in their order.
static bool is_printable(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// All characters are below U+0800.
static void put_character(unsigned code, char text[3]) {
    memset(text, 0, 3);
    if (code < 0x80) {
        text[0] = (char)code;
        return;
    }
    text[0] = (char)(0xc0 | code >> 6);
    text[1] = (char)(0x80 | (code & 0x3f));
}

static void put_vocabulary(json_out *o) {
    unsigned next = FIRST_REPLACEMENT;
    json_out_open(o, "vocab", '{');
    for (unsigned byte = 0; byte < BYTES; byte++) {
        char text[3];
        put_character(is_printable(byte) ? byte : next++, text);
        json_out_u64(o, text, byte);
    }
    json_out_close(o, '}');
}

// No pattern splits the text, and no space is added, so every byte is a token of its own.
static void put_byte_level(json_out *o, const char *key) {
    json_out_open(o, key, '{');
    json_out_string(o, "type", "ByteLevel");
    json_out_bool(o, "add_prefix_space", false);
    json_out_bool(o, "trim_offsets", false);
    json_out_bool(o, "use_regex", false);
    json_out_close(o, '}');
}

static void put_model(json_out *o) {
    json_out_open(o, "model", '{');
    json_out_string(o, "type", "BPE");
    json_out_null(o, "dropout");
    json_out_null(o, "unk_token");
    json_out_null(o, "continuing_subword_prefix");
    json_out_null(o, "end_of_word_suffix");
    json_out_bool(o, "fuse_unk", false);
    json_out_bool(o, "byte_fallback", false);
    json_out_bool(o, "ignore_merges", false);
    put_vocabulary(o);
    json_out_open(o, "merges", '[');
    json_out_close(o, ']');
    json_out_close(o, '}');
}

char *hf_tokenizer_write(size_t *length) {
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "version", "1.0");
    json_out_null(&o, "truncation");
    json_out_null(&o, "padding");
    json_out_open(&o, "added_tokens", '[');
    json_out_close(&o, ']');
    json_out_null(&o, "normalizer");
    put_byte_level(&o, "pre_tokenizer");
    json_out_null(&o, "post_processor");
    put_byte_level(&o, "decoder");
    put_model(&o);
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}

// Naming the class keeps transformers from choosing one by the model's type: GPT2Tokenizer would
// add a token.
char *hf_tokenizer_config_write(const model_config *config, size_t *length) {
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "tokenizer_class", "PreTrainedTokenizerFast");
    json_out_bool(&o, "clean_up_tokenization_spaces", false);
    json_out_u64(&o, "model_max_length", config->context);
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}
