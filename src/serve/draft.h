// Speculation: guesses of a text's next tokens ("drafts"), which are read in one step with its last
// token. Each row of the step is drawn from as if the draft did not exist. A draft is accepted if
// the token that was drawn equals it, so texts do not depend on drafts.
//
// A step takes `fixed` seconds (hops of a chain, reading the weights) and some for each row. Drafts
// pay while a further row brings more tokens a second than the steps have without it.
#ifndef BRAID_SERVE_DRAFT_H
#define BRAID_SERVE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_MOST = 31,       // tokens of one draft
    DRAFT_NGRAM_MOST = 8,  // tokens before it that are compared
    DRAFT_NGRAM_LEAST = 2,
};

// Prompt lookup: the tokens after the longest earlier occurrence of the text's last tokens, the
// latest of equally long ones. Beyond the text's end the draft repeats itself. Returns how many.
uint32_t draft_lookup(const uint32_t *tokens, uint32_t count, uint32_t *draft, uint32_t most);

// The time of steps by their rows: least squares over the newest ones.
typedef struct draft_cost {
    double weight, rows, seconds, rows_rows, rows_seconds;  // weighted sums
} draft_cost;

void draft_cost_add(draft_cost *c, uint32_t rows, double seconds);
// Seconds of a step with `rows` rows, and of one row more. False: nothing was measured.
bool draft_cost_of(const draft_cost *c, uint32_t rows, double *step, double *row);

// Probability that a token of a draft is accepted if those before it were.
typedef double draft_rate;

draft_rate draft_rate_first(void);
void draft_rate_add(draft_rate *rate, bool accepted);

// Chooses the drafts of an iteration, text by text.
typedef struct draft_plan {
    double step, row;  // seconds of the iteration so far, and of another row
    double tokens;     // that it is expected to draw
} draft_plan;

// How many of `most` tokens of a draft the step of a text reads. Adds them to the plan.
uint32_t draft_window(draft_plan *plan, draft_rate rate, uint32_t most);

#endif
