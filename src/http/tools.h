// Tool calls in the text of a model. Models are tuned on different spellings; the chat template
// shows which one:
//
//   tags      <tool_call>{"name": "f", "arguments": {...}}</tool_call>, any number   (Qwen, Hermes, SmolLM3)
//   mistral   [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...]
//   bare      {"name": "f", "parameters": {...}} as the whole answer                 (Llama 3)
#ifndef BRAID_HTTP_TOOLS_H
#define BRAID_HTTP_TOOLS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TOOLS_MAX_CALLS = 32 };

typedef enum tools_style { TOOLS_TAGS, TOOLS_MISTRAL, TOOLS_BARE } tools_style;

typedef struct tools_call {
    char *name, *arguments;  // owned; arguments are JSON
} tools_call;

tools_style tools_style_of(const char *chat_template);
// Bytes at the beginning of the text so far that are certainly no call and no beginning of one.
size_t tools_visible(tools_style style, const char *text, size_t length);
// Reads the calls of a whole text; `calls` has room for TOOLS_MAX_CALLS. Returns how many there are;
// *content is the length of the text before them. 0: the text is content alone.
uint32_t tools_parse(tools_style style, const char *text, size_t length, size_t *content, tools_call *calls);
void tools_free(tools_call *calls, uint32_t count);

#endif
