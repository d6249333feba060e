// The texts of one request: `n` choices of each prompt, submitted to the service as it has room,
// and collected. Functions of `texts_calls` are called one at a time.
#ifndef BRAID_HTTP_TEXTS_H
#define BRAID_HTTP_TEXTS_H

#include "http/inside.h"

enum { TEXTS_MAX = 2048 };  // of one request

typedef struct texts texts;

// A token with its log-probability, for answers that have them.
typedef struct text_entry {
    uint32_t token;
    float logprob;
    bool absent;  // the first token of a prompt has no probability
    uint32_t top_count;
    sampler_top *top;
} text_entry;

typedef struct text_choice {
    texts *all;
    uint32_t index;
    service_job *job;
    bool ended;
    service_end end;
    bool stop_string;  // the last step met one
    size_t prompt, cached, drawn;
    char *text;  // all of it
    size_t length, capacity;
    text_entry *entry;  // of the prompt with `echo`, then of the text
    size_t entries, entry_capacity;
    void *state;  // of the endpoint
} text_choice;

typedef struct texts_prompt {
    uint32_t *tokens;  // owned
    size_t count;
    char *echo;  // owned: the prompt as text, or NULL
    size_t echo_length;
} texts_prompt;

typedef struct texts_calls {
    // The first text was accepted by a service that is ready; the answer may begin. May be NULL.
    void (*accepted)(texts *t);
    void (*started)(texts *t, text_choice *c);  // may be NULL
    // After the text and the entry of the step were added to the choice; `text` is the new piece.
    void (*step)(texts *t, text_choice *c, const char *text, size_t length);
    void (*embedding)(texts *t, text_choice *c, const float *mean, uint32_t dim);  // may be NULL
    void (*ended)(texts *t, text_choice *c);                                       // not after a failure; may be NULL
    void (*finish)(texts *t);      // all texts have ended, or t->error says why not
    void (*keep_alive)(texts *t);  // may be NULL
    // Gives a text its constraint; may be NULL.
    braid_err (*constrain)(texts *t, text_choice *c, service_constraint *out, braid_error *error);
    void (*release)(texts *t);  // frees what the endpoint added, and `t`
} texts_calls;

struct texts {
    exchange *x;
    const texts_calls *calls;
    pthread_mutex_t lock;
    texts_prompt *prompt;  // [prompts], owned
    uint32_t prompts, n;
    service_text text;  // without tokens; what it points to is owned by the endpoint
    bool log_probabilities;

    text_choice *choice;  // [prompts * n], prompt by prompt
    uint32_t count, submitted, ended;
    bool cancelled, waiting, finished;
    braid_error error;  // the first failure
    bool late;          // it is of a text that was accepted
};

// The model or the adapter that answers.
const char *texts_model(const texts *t);
// Takes `t` and submits its texts. The caller has filled its fields up to `choice`. On a worker.
void texts_run(texts *t);
// Under the lock: ends all texts, without an error.
void texts_cancel(texts *t);
// Frees everything but `t` itself, for `release`.
void texts_close(texts *t);
// Tokens of all prompts, each once; cached ones of them; drawn ones.
void texts_usage(const texts *t, size_t *prompt, size_t *cached, size_t *drawn);

#endif
