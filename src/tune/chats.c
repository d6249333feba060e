// Conversations as tokens. The assistant's turns are found by rendering: the text up to a turn with
// the prompt for an answer, and the text up to its end, must both begin the whole conversation. The
// pieces between these places are tokenised one by one, as a model reads a prompt and then writes
// its answer.
#include "tune/inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct rendering {
    char *text;
    size_t length;
} rendering;

typedef struct chat_row {
    examples_reader *r;
    const json *row;
    const json_value *messages;
    char *tools;
    rendering whole;
    size_t at;  // of the whole, behind the last piece
} chat_row;

static char *text_of(const json *row, const json_value *value) {
    json_out o = {0};
    if (!value || value->kind == JSON_NULL) return NULL;
    json_out_value(&o, NULL, row, value);
    return json_out_take(&o, NULL);
}

// The first `count` messages as a JSON array.
static char *first_messages(const chat_row *c, uint32_t count) {
    json_out o = {0};
    const json_value *m = json_first(c->row, c->messages);
    json_out_open(&o, NULL, '[');
    for (uint32_t i = 0; i < count; i++, m = json_next(c->row, m)) json_out_value(&o, NULL, c->row, m);
    json_out_close(&o, ']');
    return json_out_take(&o, NULL);
}

static braid_err render(const chat_row *c, uint32_t count, bool prompt, rendering *out) {
    const examples_reader *r = c->r;
    braid_error why = {0};
    char *messages = first_messages(c, count);
    if (!messages) return braid_fail(r->error, BRAID_MEMORY, "no memory for a conversation");
    const chat_input in = {.messages = messages,
                           .tools = c->tools,
                           .bos = r->bos,
                           .eos = r->eos,
                           .add_generation_prompt = prompt,
                           .now = &r->day};
    braid_err err = chat_template_render(r->source->template_, &in, &out->text, &out->length, &why);
    free(messages);
    return err ? braid_fail(r->error, BRAID_FORMAT, "%s:%llu: the chat template refuses the messages: %s",
                            r->source->path, (unsigned long long)r->line, why.text)
               : BRAID_OK;
}

// Tokens of the whole conversation up to the end of the first `count` messages.
static braid_err add_until(chat_row *c, uint32_t count, bool prompt) {
    const examples_reader *r = c->r;
    rendering part = {0};
    braid_err err = render(c, count, prompt, &part);
    if (err) return err;
    bool begins = part.length >= c->at && part.length <= c->whole.length &&
                  memcmp(part.text, c->whole.text, part.length) == 0;
    free(part.text);
    if (!begins)
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s:%llu: the chat template cannot mark the assistant's turns, because it writes earlier "
                          "messages differently when others follow; give rows with prompt and completion",
                          r->source->path, (unsigned long long)r->line);
    err = examples_add(c->r, c->whole.text + c->at, part.length - c->at, TOKENIZER_PARSE_SPECIAL, !prompt);
    c->at = part.length;
    return err;
}

static bool is_assistant(const json *row, const json_value *message) {
    const char *role = json_string(json_member(row, message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

static braid_err add_turns(chat_row *c, uint32_t turns) {
    const examples_reader *r = c->r;
    if (turns == 0)
        return braid_fail(r->error, BRAID_FORMAT,
                          "%s:%llu: the conversation has no turn of the assistant, so there is nothing to learn",
                          r->source->path, (unsigned long long)r->line);
    braid_err err = render(c, c->messages->count, false, &c->whole);
    const json_value *m = json_first(c->row, c->messages);
    for (uint32_t i = 0; i < c->messages->count && !err; i++, m = json_next(c->row, m)) {
        if (!is_assistant(c->row, m)) continue;
        err = add_until(c, i, true);
        if (!err) err = add_until(c, i + 1, false);
    }
    return err;
}

static braid_err check_messages(const chat_row *c, uint32_t *turns) {
    const examples_reader *r = c->r;
    unsigned long long line = r->line;
    const json_value *m = json_first(c->row, c->messages);
    *turns = 0;
    if (!r->source->template_ || !r->source->tokenizer)
        return braid_fail(r->error, BRAID_CONFIG,
                          "%s:%llu: the row is a conversation, but the model has no chat template; give rows with "
                          "prompt and completion, or --template FILE",
                          r->source->path, line);
    if (c->messages->kind != JSON_ARRAY || c->messages->count > EXAMPLES_MAX_TURNS)
        return braid_fail(r->error, BRAID_FORMAT, "%s:%llu: messages must be an array of at most %d objects",
                          r->source->path, line, EXAMPLES_MAX_TURNS);
    for (uint32_t i = 0; i < c->messages->count; i++, m = json_next(c->row, m)) {
        if (m->kind != JSON_OBJECT || !json_string(json_member(c->row, m, "role")))
            return braid_fail(r->error, BRAID_FORMAT, "%s:%llu: message %u has no role, such as user or assistant",
                              r->source->path, line, i + 1);
        *turns += is_assistant(c->row, m);
    }
    return BRAID_OK;
}

braid_err chats_add(examples_reader *r, const json *row, const json_value *messages) {
    chat_row c = {.r = r, .row = row, .messages = messages};
    uint32_t turns;
    braid_err err = check_messages(&c, &turns);
    if (err) return err;
    c.tools = text_of(row, json_member(row, json_root(row), "tools"));
    err = add_turns(&c, turns);
    free(c.tools);
    free(c.whole.text);
    return err;
}
