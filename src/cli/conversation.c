#include "cli/conversation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct message {
    char *text;
    size_t length;
} message;

// Questions have even places, answers odd ones.
struct conversation {
    generator *g;
    chat_template *template;
    const char *variables;
    char *system, *bos, *eos;
    message *messages;
    size_t count, capacity;
};

// ---- the template

static braid_err read_template(const char *path, char **text, size_t *length, braid_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open the chat template %s: %s", path, strerror(errno));
    *text = malloc(CHAT_MAX_SOURCE_BYTES + 1);
    *length = *text ? fread(*text, 1, CHAT_MAX_SOURCE_BYTES + 1, file) : 0;
    bool failed = ferror(file);
    fclose(file);
    if (!*text) return braid_fail(error, BRAID_MEMORY, "no memory for the chat template %s", path);
    return failed ? braid_fail(error, BRAID_IO, "cannot read the chat template %s: %s", path, strerror(errno))
                  : BRAID_OK;
}

static braid_err open_template(conversation *c, const char *path, braid_error *error) {
    char *read = NULL;
    const char *source = path ? NULL : model_file_chat_template(c->g->file);
    size_t length = source ? strlen(source) : 0;
    braid_err err = path ? read_template(path, &read, &length, error) : BRAID_OK;
    if (!err && !path && !source)
        err = braid_fail(error, BRAID_CONFIG,
                         "the model has no chat template, so it was not made for conversations: use "
                         "'braid generate', or give a template with --template FILE");
    if (!err) err = chat_template_parse(path ? read : source, length, &c->template, error);
    free(read);
    return err;
}

// The text of a token, or NULL.
static char *token_text(const tokenizer *t, uint32_t id) {
    size_t length = 0;
    const char *text = id == TOKENIZER_NO_ID ? NULL : tokenizer_token(t, id, &length);
    return text ? strndup(text, length) : NULL;
}

braid_err conversation_new(generator *g, const conversation_settings *settings, conversation **out,
                           braid_error *error) {
    *out = NULL;
    if (!g->tokenizer)
        return braid_fail(error, BRAID_CONFIG,
                          "the model reads bytes and was not made for conversations: use 'braid generate'");
    conversation *c = calloc(1, sizeof *c);
    if (!c) return braid_fail(error, BRAID_MEMORY, "no memory for a conversation");
    c->g = g;
    c->variables = settings->variables;
    c->bos = token_text(g->tokenizer, tokenizer_bos(g->tokenizer));
    c->eos = token_text(g->tokenizer, tokenizer_eos(g->tokenizer));
    braid_err err = open_template(c, settings->template_file, error);
    if (!err) err = conversation_set_system(c, settings->system, error);
    if (err)
        conversation_free(c);
    else
        *out = c;
    return err;
}

void conversation_free(conversation *c) {
    if (!c) return;
    conversation_reset(c);
    chat_template_free(c->template);
    free(c->messages);
    free(c->system);
    free(c->bos);
    free(c->eos);
    free(c);
}

// ---- messages

static void drop_first(conversation *c, size_t count) {
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) free(c->messages[i].text);
    c->count -= count;
    memmove(c->messages, c->messages + count, c->count * sizeof *c->messages);
}

void conversation_reset(conversation *c) { drop_first(c, c->count); }

braid_err conversation_set_system(conversation *c, const char *system, braid_error *error) {
    char *copy = system ? strdup(system) : NULL;
    if (system && !copy) return braid_fail(error, BRAID_MEMORY, "no memory for the message of the system");
    free(c->system);
    c->system = copy;
    return BRAID_OK;
}

static braid_err add_message(conversation *c, const char *text, size_t length, braid_error *error) {
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 16;
        message *more = realloc(c->messages, capacity * sizeof *more);
        if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for a message");
        c->messages = more;
        c->capacity = capacity;
    }
    char *copy = malloc(length + 1);
    if (!copy) return braid_fail(error, BRAID_MEMORY, "no memory for a message");
    if (length > 0) memcpy(copy, text, length);
    copy[length] = 0;
    c->messages[c->count++] = (message){copy, length};
    return BRAID_OK;
}

static void remove_last(conversation *c) { free(c->messages[--c->count].text); }

// ---- prompts

// The messages from `first` on, with that of the system, as a prompt.
static braid_err render(conversation *c, size_t first, char **text, size_t *length, braid_error *error) {
    char *messages = NULL;
    braid_err err = BRAID_OK;
    if (c->system) err = chat_append_message(&messages, "system", c->system, strlen(c->system), error);
    for (size_t i = first; i < c->count && !err; i++)
        err = chat_append_message(&messages, i % 2 ? "assistant" : "user", c->messages[i].text, c->messages[i].length,
                                  error);
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    const chat_input in = {.messages = messages,
                           .variables = c->variables,
                           .bos = c->bos,
                           .eos = c->eos,
                           .add_generation_prompt = true,
                           .now = &now};
    if (!err) err = chat_template_render(c->template, &in, text, length, error);
    free(messages);
    return err;
}

static braid_err encode(conversation *c, size_t first, tokenizer_ids *ids, braid_error *error) {
    char *text = NULL;
    size_t length = 0;
    ids->count = 0;
    braid_err err = render(c, first, &text, &length, error);
    if (!err) err = tokenizer_encode(c->g->encoder, text, length, TOKENIZER_PARSE_SPECIAL, ids, error);
    free(text);
    return err;
}

// The tokens of the messages, without the oldest questions and answers if the context needs that.
static braid_err fit(conversation *c, tokenizer_ids *ids, uint32_t *dropped, braid_error *error) {
    size_t context = engine_context(c->g->engine), room = context - context / 8;
    *dropped = 0;
    for (size_t first = 0;; first += 2, ++*dropped) {
        braid_err err = encode(c, first, ids, error);
        bool last = first + 1 == c->count;
        if (!err && last && ids->count >= context)
            err = braid_fail(error, BRAID_LIMIT,
                             "the question has %zu tokens with the template, the context is %zu: ask a shorter "
                             "one, or give a longer --context",
                             ids->count, context);
        if (!err && ids->count > room && !last) continue;
        if (!err) drop_first(c, first);
        return err;
    }
}

braid_err conversation_prompt(conversation *c, const char *question, size_t length, char **text, size_t *text_length,
                              braid_error *error) {
    braid_err err = add_message(c, question, length, error);
    if (err) return err;
    err = render(c, 0, text, text_length, error);
    remove_last(c);
    return err;
}

// ---- answers

typedef struct collected {
    char *text;
    size_t length, capacity;
} collected;

static braid_err collect(collected *all, const char *text, size_t length, braid_error *error) {
    if (all->capacity - all->length < length) {
        size_t capacity = 2 * (all->length + length) + 64;
        char *more = realloc(all->text, capacity);
        if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for the answer");
        all->text = more;
        all->capacity = capacity;
    }
    if (length > 0) memcpy(all->text + all->length, text, length);
    all->length += length;
    return BRAID_OK;
}

static braid_err generate_answer(conversation *c, conversation_sink sink, void *context, collected *all,
                                 conversation_answer *out, braid_error *error) {
    generation_step *step = malloc(sizeof *step);
    braid_err err = step ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the answer");
    for (bool goes_on = true; !err && goes_on;) {
        err = generation_next(c->g->text, step, error);
        if (err) break;
        out->tokens++;
        out->end = step->end;
        err = collect(all, step->text, step->length, error);
        goes_on = sink(context, step->text, step->length) && !step->end;
    }
    free(step);
    return err;
}

braid_err conversation_ask(conversation *c, const char *question, size_t length, conversation_sink sink, void *context,
                           conversation_answer *out, braid_error *error) {
    tokenizer_ids ids = {0};
    collected all = {0};
    *out = (conversation_answer){0};
    braid_err err = add_message(c, question, length, error);
    if (err) return err;
    err = fit(c, &ids, &out->dropped, error);
    if (!err) err = generation_prompt(c->g->text, ids.at, ids.count, error);
    out->prompt_tokens = ids.count;
    if (!err) err = generate_answer(c, sink, context, &all, out, error);
    if (!err) err = add_message(c, all.text, all.length, error);
    if (err) remove_last(c);
    free(all.text);
    tokenizer_ids_free(&ids);
    return err;
}
