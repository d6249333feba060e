// The pre-tokenizers that GGUF files name.
#ifndef BRAID_TEXT_GGUF_PRE_H
#define BRAID_TEXT_GGUF_PRE_H

enum {
    GGUF_IGNORE_MERGES = 1,
    GGUF_ADD_BOS = 2,  // unless the file says otherwise
    GGUF_NO_BOS = 4,
    GGUF_ESCAPE = 8  // spaces become U+2581, and the text stays UTF-8
};

typedef struct gguf_pre {
    const char *name;
    const char *patterns[6];  // one after another, each on the pieces of those before
    unsigned flags;
} gguf_pre;

// NULL: unknown. No name, or an empty one, is "default".
const gguf_pre *gguf_pre_find(const char *name);

#endif
