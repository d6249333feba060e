// A conversation with a model: its messages, the chat template that makes a prompt of them, and the answers.
#ifndef BRAID_CLI_CONVERSATION_H
#define BRAID_CLI_CONVERSATION_H

#include "chat/template.h"
#include "cli/generator.h"

typedef struct conversation_settings {
    const char *template_file;  // a template instead of the model's; NULL: the model's
    const char *system;         // the first message, from the system; NULL: none
    const char *variables;      // a JSON object of variables for the template, or NULL
} conversation_settings;

typedef struct conversation conversation;

// Reads and parses the template. The generator and the settings are borrowed. BRAID_CONFIG: there is no template, or no
// tokenizer. Free with conversation_free.
braid_err conversation_new(generator *g, const conversation_settings *settings, conversation **out, braid_error *error);
void conversation_free(conversation *c);
// Forgets all questions and answers.
void conversation_reset(conversation *c);
// Another message of the system, or NULL: none. Copied.
braid_err conversation_set_system(conversation *c, const char *system, braid_error *error);

// Receives each piece of an answer; false: the answer ends here.
typedef bool (*conversation_sink)(void *context, const char *text, size_t length);

typedef struct conversation_answer {
    uint32_t dropped;    // questions that were forgotten with their answers, because the context is full
    generation_end end;  // GENERATION_GOES_ON: the sink ended it
    size_t prompt_tokens, tokens;
} conversation_answer;

// Adds the question, and then the answer. Where the messages and an eighth of the context for the answer do not fit into the
// context, the oldest questions and their answers are dropped. After an error the question is not part of the conversation.
// BRAID_LIMIT: the question alone is too long.
braid_err conversation_ask(conversation *c, const char *question, size_t length, conversation_sink sink, void *context,
                           conversation_answer *out, braid_error *error);
// The prompt that conversation_ask would give to the model, in new memory of the caller.
braid_err conversation_prompt(conversation *c, const char *question, size_t length, char **text, size_t *text_length,
                              braid_error *error);

#endif
