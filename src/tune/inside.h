// Shared by the readers of examples.
#ifndef BRAID_TUNE_INSIDE_H
#define BRAID_TUNE_INSIDE_H

#include "format/json.h"
#include "tune/examples.h"

#include <time.h>

typedef struct examples_reader {
    tune_examples *out;
    const examples_source *source;
    uint64_t line;  // of the row, for messages
    char *bos, *eos;
    struct tm day;  // of the file, for templates that write a date
    braid_error *error;
} examples_reader;

// Appends the tokens of a piece of text. `learned`: they count in the loss.
braid_err examples_add(examples_reader *r, const char *text, size_t length, unsigned flags, bool learned);

// Appends the token that ends a text, if the tokenizer has one; it counts.
braid_err examples_add_end(examples_reader *r);
braid_err examples_no_memory(const examples_reader *r);

// chats.c: the tokens of a conversation.
braid_err chats_add(examples_reader *r, const json *row, const json_value *messages);

#endif
