// Prompts of requests as tokens.
#ifndef BRAID_HTTP_PROMPT_H
#define BRAID_HTTP_PROMPT_H

#include "http/body.h"
#include "http/texts.h"

enum { PROMPT_MAX_TOOLS = 128 };

// The field `field`: a string, a list of strings, a list of token ids, or a list of such lists. Sets
// *out, new memory with *count prompts, which prompt_free frees. `echo`: keeps their text, too.
void prompt_read(http_server *s, body *b, const char *field, bool echo, texts_prompt **out, uint32_t *count);
void prompt_free(texts_prompt *prompts, uint32_t count);

typedef struct prompt_chat {
    const json_value *messages;   // array
    const json_value *tools;      // array or NULL
    const json_value *variables;  // object for the template, or NULL
    const char *system;           // a message before the others, or NULL
    bool no_answer;               // the last message is not followed by the beginning of an answer
} prompt_chat;

// Messages as the model's chat template writes them. Parts of text are joined, `developer` is
// `system`, and arguments of tool calls become objects.
void prompt_chat_read(http_server *s, body *b, const prompt_chat *chat, texts_prompt **out);
// The same as text, in new memory; NULL after a mistake.
char *prompt_chat_render(http_server *s, body *b, const prompt_chat *chat, size_t *length);

#endif
