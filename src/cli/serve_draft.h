// The draft model of `braid serve --draft MODEL`.
#ifndef BRAID_CLI_SERVE_DRAFT_H
#define BRAID_CLI_SERVE_DRAFT_H

#include "cli/generator.h"

typedef struct serve_draft {
    bool on;          // drafts are made: by the model if there is one, else by prompt lookup
    generator model;  // with an engine, or empty
    uint64_t bytes;   // its weights, and the most of its keys and values
} serve_draft;

// `draft`: "off", "lookup", or the path of a model with the tokenizer of `served`. The model computes in
// the pool of `served`. Its keys and values get an eighth of `memory` (0: no limit), and the whole has
// to fit into half of it. Close with serve_draft_close, also after a failure, before `served`.
braid_err serve_draft_open(serve_draft *d, const char *draft, const generator *served, uint32_t context,
                           uint64_t memory, braid_error *error);
void serve_draft_close(serve_draft *d);

#endif
