#include "serve/draft.h"

#include <string.h>

// --- lookup

// Tokens before `end` that equal those before `count`.
static uint32_t common_before(const uint32_t *tokens, uint32_t end, uint32_t count) {
    uint32_t same = 0;
    while (same < DRAFT_NGRAM_MOST && same < end && tokens[end - 1 - same] == tokens[count - 1 - same]) same++;
    return same;
}

uint32_t draft_lookup(const uint32_t *tokens, uint32_t count, uint32_t *draft, uint32_t most) {
    uint32_t longest = DRAFT_NGRAM_LEAST - 1, from = 0;
    for (uint32_t end = count; end-- > DRAFT_NGRAM_LEAST && longest < DRAFT_NGRAM_MOST;) {
        uint32_t same = common_before(tokens, end, count);
        if (same <= longest) continue;
        longest = same;
        from = end;
    }
    if (from == 0) return 0;
    for (uint32_t i = 0; i < most; i++) draft[i] = from + i < count ? tokens[from + i] : draft[from + i - count];
    return most;
}

// --- costs

static const double KEPT = 0.97;        // weight of a measurement after another one
static const double ROW_SHARE = 0.125;  // of a step's time, for each row, while rows were not compared
static const double PRIOR = 4;          // weight of that guess, in squared rows
static const double OUTLIER = 4;        // longer steps than this multiple of the expected time count as that
static const double OUTLIERS_FROM = 8;  // measurements

static double row_of(const draft_cost *c, double rows, double seconds) {
    double spread = c->rows_rows - rows * c->rows, common = c->rows_seconds - rows * c->seconds;
    double row = (common + PRIOR * ROW_SHARE * seconds) / (spread + PRIOR);
    double most = seconds / (rows > 1 ? rows : 1), least = seconds * 1e-3;
    if (row > most) return most;
    return row > least ? row : least;
}

bool draft_cost_of(const draft_cost *c, uint32_t rows, double *step, double *row) {
    *step = *row = 0;
    if (c->weight <= 0) return false;
    double mean_rows = c->rows / c->weight, mean = c->seconds / c->weight;
    *row = row_of(c, mean_rows, mean);
    *step = mean + *row * ((double)rows - mean_rows);
    if (*step < *row * rows) *step = *row * rows;
    return *step > 0;
}

void draft_cost_add(draft_cost *c, uint32_t rows, double seconds) {
    double expected, row;
    if (c->weight > OUTLIERS_FROM && draft_cost_of(c, rows, &expected, &row) && seconds > OUTLIER * expected)
        seconds = OUTLIER * expected;
    c->weight = KEPT * c->weight + 1;
    c->rows = KEPT * c->rows + rows;
    c->seconds = KEPT * c->seconds + seconds;
    c->rows_rows = KEPT * c->rows_rows + (double)rows * rows;
    c->rows_seconds = KEPT * c->rows_seconds + rows * seconds;
}

// --- acceptance

static const double RATE_FIRST = 0.5, RATE_STEP = 0.1, RATE_MOST = 0.98;

draft_rate draft_rate_first(void) { return RATE_FIRST; }

void draft_rate_add(draft_rate *rate, bool accepted) { *rate += RATE_STEP * ((double)accepted - *rate); }

uint32_t draft_window(draft_plan *plan, draft_rate rate, uint32_t most) {
    if (rate > RATE_MOST) rate = RATE_MOST;
    uint32_t count = 0;
    for (double reached = rate; count < most && reached * plan->step > plan->row * plan->tokens; reached *= rate) {
        plan->tokens += reached;
        plan->step += plan->row;
        count++;
    }
    return count;
}
