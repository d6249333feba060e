// A model that continues texts, as the HTTP API and the page see it: many texts at once, on this
// machine or over a chain of peers. The implementation is behind `service_calls`.
//
// Any thread may call. Listeners are called on a thread of the service, one call at a time for each
// text; they may call service_cancel and must not block.
#ifndef BRAID_SERVE_SERVICE_H
#define BRAID_SERVE_SERVICE_H

#include "base/err.h"
#include "infer/generation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct service service;
typedef struct service_job service_job;

typedef enum service_end {
    SERVICE_STOP,        // a stop id or a stop string
    SERVICE_MAX_TOKENS,  // as many as the text was allowed
    SERVICE_CONTEXT,     // the context is full
    SERVICE_CANCELLED,   // by service_cancel
    SERVICE_FAILED,      // with an error
} service_end;

// Restricts the next token, for example to a grammar. Called on a thread of the service, for one
// text at a time.
typedef struct service_constraint {
    void *context;  // NULL functions: no constraint
    // Sets the logits[vocab] of forbidden tokens to -INFINITY and leaves at least one.
    void (*mask)(void *context, float *logits, uint32_t vocab);
    void (*accept)(void *context, uint32_t token);
    void (*release)(void *context);  // once, after the last call, also when the text is refused
} service_constraint;

// Of one prompt token, for `echo` with log-probabilities. The first one has none (top_count 0).
typedef struct service_prompt_token {
    uint32_t token;
    float logprob;
    uint32_t top_count;
    const sampler_top *top;
} service_prompt_token;

typedef struct service_listener {
    void *context;
    // The text has a place: its prompt is read from now on. `cached` of its `prompt` tokens are not
    // read again.
    void (*started)(void *context, size_t prompt, size_t cached);
    // With service_text.prompt_logprobs: each token of the prompt, in order, before the first step.
    void (*prompt)(void *context, const service_prompt_token *token);
    // With service_text.embed: the mean over the tokens of the hidden states after the final norm.
    void (*embedding)(void *context, const float *mean, uint32_t dim);
    // One token; borrowed during the call. `end` in it is GENERATION_GOES_ON except in the last.
    void (*step)(void *context, const generation_step *step);
    // The last call for this text. `error` only for SERVICE_FAILED: BRAID_MEMORY, BRAID_LIMIT, or
    // BRAID_NETWORK while layers of the model are on no peer.
    void (*ended)(void *context, service_end end, const braid_error *error);
} service_listener;

typedef struct service_text {
    const uint32_t *tokens;  // [count], copied; count >= 1
    size_t count;
    generation_settings settings;  // copied with all that it points to; max_tokens 0: to the end of the context
    service_constraint constraint;
    const char *model;     // name of the model or of an adapter, NULL: the model
    bool prompt_logprobs;  // with settings.top_logprobs alternatives each
    bool prompt_only;      // no token is drawn; the end is SERVICE_MAX_TOKENS
    bool embed;            // implies prompt_only
} service_text;

// The model behind a service; borrowed until service_free.
typedef struct service_model {
    const char *name;  // "smollm2-135m-instruct"
    const model_config *config;
    const tokenizer *tokenizer;     // NULL: tokens are bytes
    const char *chat_template;      // Jinja, NULL: none
    uint32_t context;               // longest text in tokens
    uint64_t created;               // Unix time of its file
    char hash[65];                  // SHA-256 of the weights in hex, "" if it was not computed
    struct adapter_set *adapters;   // more names of service_text.model (serve/adapters.h); NULL: none
    const char *generation_config;  // the model's own sampling defaults as JSON, NULL: none
} service_model;

// One moment of a service.
typedef struct service_status {
    bool ready;         // a token has gone through all layers since the last change
    char blocker[128];  // why it is not ready, in words; "" if it is
    uint32_t running, queued, queue_limit;
    uint64_t texts, failed;  // ended so far
    uint64_t prompt_tokens, cached_tokens, drawn_tokens;
    double tokens_per_second;           // drawn, over the last ten seconds
    uint64_t cache_bytes, cache_limit;  // keys and values: in use, and the most
    uint64_t memory_limit;
} service_status;

typedef struct service_calls {
    const service_model *(*model)(service *s);
    braid_err (*submit)(service *s, const service_text *text, const service_listener *listener, service_job **out,
                        braid_error *error);
    void (*cancel)(service *s, service_job *job);
    void (*release)(service *s, service_job *job);
    void (*status)(service *s, service_status *out);
    // The state of the swarm as JSON for /v1/swarm and the page (docs/serving.md), NULL: one peer.
    // Free with free.
    char *(*swarm)(service *s);
    void (*free)(service *s);
    void (*drain)(service *s);
    braid_err (*reload)(service *s, braid_error *error);
} service_calls;

// Implementations begin with this.
struct service {
    const service_calls *calls;
};

static inline const service_model *service_model_of(service *s) { return s->calls->model(s); }

// Refuses a full queue (BRAID_BUSY), a prompt that is longer than the context or than any room for
// it (BRAID_LIMIT), a token outside the vocabulary and unsuited settings (BRAID_ARGUMENT,
// BRAID_CONFIG), an unknown `model` (BRAID_NOT_FOUND). After an error the listener is not called.
// Release *out with service_release at any time; that does not end the text.
static inline braid_err service_submit(service *s, const service_text *text, const service_listener *listener,
                                       service_job **out, braid_error *error) {
    return s->calls->submit(s, text, listener, out, error);
}
// Ends a text soon; `ended` is still called, unless it was.
static inline void service_cancel(service *s, service_job *job) { s->calls->cancel(s, job); }
static inline void service_release(service *s, service_job *job) { s->calls->release(s, job); }
static inline void service_status_of(service *s, service_status *out) { s->calls->status(s, out); }
static inline char *service_swarm(service *s) { return s->calls->swarm(s); }
// Refuses new texts from now on (BRAID_BUSY); those that it has go on.
static inline void service_drain(service *s) {
    if (s->calls->drain) s->calls->drain(s);
}
// Reads all adapters again. Texts submitted from now on have the new ones, those under way keep
// theirs. After an error nothing has changed.
static inline braid_err service_reload(service *s, braid_error *error) {
    return s->calls->reload ? s->calls->reload(s, error) : BRAID_OK;
}
// Cancels all texts and waits for the calls of their listeners.
static inline void service_free(service *s) {
    if (s) s->calls->free(s);
}

#endif
