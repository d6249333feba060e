// POST /tokenize and /detokenize, in the form that lm-eval and vLLM use.
#include "http/body.h"
#include "http/prompt.h"
#include "http/tokens.h"

#include <stdlib.h>
#include <string.h>

static void put_ids(json_out *o, const char *key, const uint32_t *ids, size_t count) {
    json_out_open(o, key, '[');
    for (size_t i = 0; i < count; i++) json_out_u64(o, NULL, ids[i]);
    json_out_close(o, ']');
}

// `prompt`, or `messages` as the chat template writes them; in new memory.
static char *read_text(exchange *x, body *b, size_t *length, bool *template) {
    const json_value *messages = body_array(b, b->root, "messages"), *prompt = body_member(b, b->root, "prompt");
    if (!prompt) prompt = body_member(b, b->root, "content");
    *template = messages != NULL;
    if (messages) {
        bool answer = true;
        body_bool(b, b->root, "add_generation_prompt", &answer);
        const prompt_chat chat = {.messages = messages, .no_answer = !answer};
        return prompt_chat_render(x->server, b, &chat, length);
    }
    if (!json_string(prompt)) {
        body_mistake(b, "prompt", "'prompt' must be a text");
        return NULL;
    }
    *length = prompt->length;
    return strdup(prompt->text);
}

void handle_tokenize(exchange *x) {
    body b;
    if (!body_read(x, &b)) {
        body_free(&b);
        return;
    }
    size_t length = 0;
    bool template = false, special = true;
    tokenizer_ids ids = {0};
    char *text = read_text(x, &b, &length, &template);
    if (template) special = false;  // the template writes them
    body_bool(&b, b.root, "add_special_tokens", &special);
    unsigned flags = TOKENIZER_PARSE_SPECIAL | (special ? TOKENIZER_ADD_SPECIAL : 0u);
    if (text && !b.error.code) tokens_encode(x->server, text, length, flags, &ids, &b.error);
    if (!text && !b.error.code) braid_fail(&b.error, BRAID_MEMORY, "no memory for a text");
    if (!body_refused(x, &b)) {
        json_out o = {0};
        json_out_open(&o, NULL, '{');
        json_out_u64(&o, "count", ids.count);
        json_out_u64(&o, "max_model_len", x->server->model->context);
        put_ids(&o, "tokens", ids.at, ids.count);
        json_out_close(&o, '}');
        reply_json(x, 200, &o);
    }
    free(text);
    tokenizer_ids_free(&ids);
    body_free(&b);
}

void handle_detokenize(exchange *x) {
    body b;
    if (!body_read(x, &b)) {
        body_free(&b);
        return;
    }
    const json_value *list = body_array(&b, b.root, "tokens");
    uint32_t *ids = malloc(((list ? list->count : 0) + 1u) * sizeof *ids), count = 0;
    char *text = NULL;
    size_t length = 0;
    if (!list) body_mistake(&b, "tokens", "'tokens' is missing");
    if (!ids && !b.error.code) braid_fail(&b.error, BRAID_MEMORY, "no memory for the tokens");
    for (const json_value *v = list && ids ? json_first(b.doc, list) : NULL; v; v = json_next(b.doc, v)) {
        uint64_t id = 0;
        if (!json_u64(v, &id) || id >= tokens_vocabulary(x->server))
            body_mistake(&b, "tokens", "'tokens' has a token that is no whole number below %u",
                         tokens_vocabulary(x->server));
        ids[count++] = (uint32_t)id;
    }
    if (!b.error.code) tokens_decode(x->server, ids, count, &text, &length, &b.error);
    if (!body_refused(x, &b)) {
        json_out o = {0};
        json_out_open(&o, NULL, '{');
        json_out_text(&o, "prompt", text, length);
        json_out_close(&o, '}');
        reply_json(x, 200, &o);
    }
    free(text);
    free(ids);
    body_free(&b);
}
