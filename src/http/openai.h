// Answers of /v1/completions and /v1/chat/completions, whole or as server-sent events.
#ifndef BRAID_HTTP_OPENAI_H
#define BRAID_HTTP_OPENAI_H

#include "http/prompt.h"
#include "http/sampling.h"
#include "http/tools.h"

enum { OPENAI_MAX_CHOICES = 128, OPENAI_MAX_TOP = 20 };

struct grammar;

typedef struct openai_answer {
    texts all;  // first, as texts_calls pass it
    body body;  // settings point into it
    sampling sampling;
    bool chat, stream, usage, echo;
    bool log_probabilities;
    uint32_t top;  // alternatives that are shown for each token
    bool tools;    // calls are read from the text
    tools_style style;
    struct grammar *grammar;  // owned; NULL: none
    char id[64];
    uint64_t created;
} openai_answer;

// Reads the fields that both endpoints have. NULL: the request was answered with an error.
openai_answer *openai_new(exchange *x, bool chat);
void openai_free(openai_answer *a);
// Answers with a mistake of the body and frees; or runs the texts.
void openai_run(openai_answer *a);
// The model of a request: sets text->model, or notes an unknown one.
void openai_model(http_server *s, body *b, service_text *text);
// Sends a document as one event and frees it.
void openai_event(exchange *x, texts *t, json_out *o);
void openai_put_usage(json_out *o, const char *key, const texts *t);
void openai_put_calls(json_out *o, const tools_call *calls, uint32_t count, bool stream, http_server *s);
const char *openai_finish_reason(service_end end);
// The calls in the text of a choice; *content as in tools_parse.
uint32_t openai_find_calls(const openai_answer *a, const text_choice *c, size_t *content, tools_call *calls);

extern const texts_calls openai_calls;

#endif
