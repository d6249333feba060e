#include "weights/convert_inside.h"
#include "weights/vocabulary.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name

static void put_id(gguf_out *o, const char *key, uint32_t id) {
    if (id != TOKENIZER_NO_ID) gguf_out_u32(o, key, id);
}

static void put_texts(gguf_out *o, const char *key, const tokenizer_text *texts, uint32_t count) {
    gguf_out_array(o, key, GGUF_STRING, count);
    for (uint32_t i = 0; i < count; i++) gguf_out_string(o, texts[i].at, texts[i].length);
}

static void put_vocabulary(gguf_out *o, const tokenizer_vocabulary *v) {
    gguf_out_text(o, KEY("model"), v->model, strlen(v->model));
    gguf_out_text(o, KEY("pre"), v->pre, strlen(v->pre));
    put_texts(o, KEY("tokens"), v->tokens, v->count);
    if (v->scores) {
        gguf_out_array(o, KEY("scores"), GGUF_F32, v->count);
        gguf_out_put(o, v->scores, v->count * sizeof *v->scores);
    }
    gguf_out_array(o, KEY("token_type"), GGUF_I32, v->count);
    gguf_out_put(o, v->types, v->count * sizeof *v->types);
    if (!v->scores) put_texts(o, KEY("merges"), v->merges, v->merge_count);
    put_id(o, KEY("bos_token_id"), v->bos);
    put_id(o, KEY("eos_token_id"), v->eos);
    gguf_out_bool(o, KEY("add_bos_token"), v->add_bos > 0);
    gguf_out_bool(o, KEY("add_eos_token"), v->add_eos > 0);
    if (v->add_space_prefix >= 0) gguf_out_bool(o, KEY("add_space_prefix"), v->add_space_prefix > 0);
}

// A further id that ends a text: the end of a turn.
static void put_turn(gguf_out *o, const tokenizer *t, const tokenizer_vocabulary *v) {
    uint32_t count;
    const uint32_t *stops = tokenizer_stops(t, &count);
    for (uint32_t i = 0; i < count; i++)
        if (stops[i] != v->eos && stops[i] < v->count) {
            put_id(o, KEY("eot_token_id"), stops[i]);
            return;
        }
}

static braid_err put_tokenizer(gguf_out *o, const model_file *f, const tokenizer *t, braid_error *error) {
    vocabulary_out made;
    braid_err err = vocabulary_of_tokenizer(f->path, t, f->config.vocab, &made, error);
    if (!err) {
        put_vocabulary(o, &made.v);
        put_turn(o, t, &made.v);
    }
    vocabulary_out_free(&made);
    return err;
}

// The keys of a GGUF file are kept as they are.
static void copy_keys(gguf_out *o, const model_file *f) {
    for (uint32_t i = 0; i < f->gguf[0].key_count; i++) {
        const gguf_key *key = &f->gguf[0].key[i];
        if (key->name.length > 10 && memcmp(key->name.at, "tokenizer.", 10) == 0) gguf_out_copy(o, key);
    }
}

braid_err gguf_write_tokenizer(gguf_out *o, const model_file *f, braid_error *error) {
    tokenizer *t = NULL;
    if (!f->directory) {
        copy_keys(o, f);
        return BRAID_OK;
    }
    if (!model_file_has_tokenizer(f)) {
        gguf_out_text(o, KEY("model"), "none", 4);
        return BRAID_OK;
    }
    braid_err err = model_file_tokenizer(f, &t, error);
    if (!err) err = put_tokenizer(o, f, t, error);
    if (!err && f->chat_template)
        gguf_out_text(o, "tokenizer.chat_template", f->chat_template, strlen(f->chat_template));
    tokenizer_free(t);
    return err;
}
