// POST /v1/completions and /v1/chat/completions.
#include "http/constraint.h"
#include "http/openai.h"

#include <string.h>

enum { DEFAULT_TOKENS = 16 };

void handle_completions(exchange *x) {
    openai_answer *a = openai_new(x, false);
    if (!a) return;
    body *b = &a->body;
    uint64_t tokens = DEFAULT_TOKENS;
    body_bool(b, b->root, "echo", &a->echo);
    a->log_probabilities = body_u32(b, b->root, "logprobs", 0, SAMPLER_MAX_TOP, &a->top);
    body_u64(b, b->root, "max_tokens", 0, UINT32_MAX, &tokens);
    a->all.text.prompt_only = tokens == 0;
    a->sampling.settings.max_tokens = tokens;
    a->all.text.prompt_logprobs = a->echo && a->log_probabilities;
    const char *suffix = body_string(b, b->root, "suffix");
    if (suffix && *suffix)
        body_mistake(b, "suffix", "'suffix' is not supported: the model writes the end of a text only");
    constraint_read(&a->grammar, b);
    prompt_read(x->server, b, "prompt", a->echo, &a->all.prompt, &a->all.prompts);
    openai_run(a);
}

// The number of tokens that may be drawn, under its new and its old name.
static void read_most(openai_answer *a) {
    body *b = &a->body;
    uint64_t *most = &a->sampling.settings.max_tokens;
    if (!body_u64(b, b->root, "max_completion_tokens", 1, UINT32_MAX, most))
        body_u64(b, b->root, "max_tokens", 1, UINT32_MAX, most);
}

static void read_top(openai_answer *a) {
    body *b = &a->body;
    body_bool(b, b->root, "logprobs", &a->log_probabilities);
    if (body_u32(b, b->root, "top_logprobs", 0, OPENAI_MAX_TOP, &a->top) && a->top > 0 && !a->log_probabilities)
        body_mistake(b, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
}

void handle_chat(exchange *x) {
    openai_answer *a = openai_new(x, true);
    if (!a) return;
    body *b = &a->body;
    prompt_chat chat = {.messages = body_array(b, b->root, "messages"),
                        .tools = body_array(b, b->root, "tools"),
                        .variables = body_object(b, b->root, "chat_template_kwargs")};
    read_most(a);
    read_top(a);
    constraint_read(&a->grammar, b);
    constraint_read_tools(&a->grammar, x->server, b, &chat, &a->tools);
    a->style = tools_style_of(x->server->chat.source);
    // the marks of calls are special tokens in some vocabularies
    a->sampling.settings.show_special = a->tools;
    prompt_chat_read(x->server, b, &chat, &a->all.prompt);
    a->all.prompts = a->all.prompt ? 1 : 0;
    openai_run(a);
}
