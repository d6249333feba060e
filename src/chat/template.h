// Chat templates: messages as JSON become the text that a model was tuned on, exactly as transformers 5.23
// (apply_chat_template) renders them with Jinja 3.1. A template is untrusted: its size, nesting, steps, memory and
// output have maxima, and a construct that is not supported is refused with its line.
//
// A template is read-only after it was parsed and may be shared by threads.
#ifndef BRAID_CHAT_TEMPLATE_H
#define BRAID_CHAT_TEMPLATE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    CHAT_MAX_SOURCE_BYTES = 1 << 20,
    CHAT_MAX_NESTING = 100,             // of statements, brackets and operators in the source
    CHAT_MAX_NODE_DEPTH = 400,          // of an expression, with its chains of operators
    CHAT_MAX_STEPS = 4 << 20,           // of one rendering; long texts cost a step for each 64 bytes
    CHAT_MAX_DEPTH = 1000,              // of nested evaluations in one rendering
    CHAT_MAX_VALUE_DEPTH = 100,         // of nested lists and objects that are printed or compared
    CHAT_MAX_MEMORY_BYTES = 256 << 20,  // of the values of one rendering
    CHAT_MAX_OUTPUT_BYTES = 64 << 20,
};

typedef struct chat_template chat_template;

// Errors name the line and the construct. `source` is UTF-8 and is copied. Free with chat_template_free.
braid_err chat_template_parse(const char *source, size_t length, chat_template **out, braid_error *error);
void chat_template_free(chat_template *t);

// The variables of a template. Texts are 0-terminated JSON, borrowed during the call.
typedef struct chat_input {
    const char *messages;   // array of objects with "role" and "content"; members that are null are left out
    const char *tools;      // array of objects, or NULL: none
    const char *variables;  // object: its members become variables, e.g. {"enable_thinking": false}, or NULL
    const char *bos, *eos;  // texts of the variables bos_token and eos_token; NULL: not set
    bool add_generation_prompt;
    const struct tm *now;  // local time for strftime_now; NULL: a template that asks for it is an error
} chat_input;

// The rendered text in new memory, 0-terminated behind `length`; the caller frees it. BRAID_ARGUMENT: the template itself
// refuses the messages (raise_exception). BRAID_LIMIT: one of the maxima. BRAID_FORMAT: any other mistake.
braid_err chat_template_render(const chat_template *t, const chat_input *in, char **text, size_t *length,
                               braid_error *error);

// Appends {"role": ROLE, "content": CONTENT} to a JSON array of messages in `*messages`, which is NULL or memory of malloc.
// Bytes of `content` that are no UTF-8 become U+FFFD. On an error the array is unchanged.
braid_err chat_append_message(char **messages, const char *role, const char *content, size_t length,
                              braid_error *error);

#endif
