// Multiple choice by likelihood: a model answers a question with the choice to which it gives the largest probability.
#ifndef BRAID_EVAL_CHOICES_H
#define BRAID_EVAL_CHOICES_H

#include "infer/engine.h"
#include "text/tokenizer.h"

enum {
    CHOICES_MAX_ITEMS = 1 << 20,  // of a file
    CHOICES_MAX_OPTIONS = 64,     // of an item
    CHOICES_MAX_LINE_BYTES = 1 << 20,
    CHOICES_MAX_FILE_BYTES = 1 << 30,
};

typedef struct choice_item {
    uint32_t line;   // of the file
    uint32_t gold;   // index of the right choice
    uint32_t count;  // of choices
    const char *query;
    const char **choices;  // [count]
    uint32_t first;        // place of the first choice among the choices of all items
} choice_item;

// A file of JSON lines {"query": TEXT, "choices": [TEXT, TEXT, ...], "gold": INDEX}; the text of a choice follows that of the
// query directly, so one of them has the space between them. Other members are ignored, and so are empty lines.
typedef struct choice_task {
    choice_item *items;
    uint32_t count, choices;  // choices: of all items
    char *name;               // of the file, without its folder and its ending
    void *memory;
} choice_task;

// Errors name file and line. Free with choice_task_free, also after a failure.
braid_err choice_task_read(const char *path, choice_task *out, braid_error *error);
void choice_task_free(choice_task *t);

typedef struct choice_settings {
    uint32_t together;  // texts that are read together, at least 1; it changes no result
    void (*progress)(void *context, uint32_t done, uint32_t items);  // NULL: none
    void *context;
} choice_settings;

// scores[choices of all items]: the logarithm of the probability of each choice after its query. The tokens of a choice are
// those of query and choice together beyond the tokens that they have in common with the query.
braid_err choices_score(engine *e, const tokenizer *t, const choice_task *task, const choice_settings *settings,
                        double *scores, braid_error *error);

// Shares of right answers, with their standard errors sqrt(p (1 - p) / (n - 1)). `normal`: the logarithm is divided by the
// bytes of the choice, so that long choices have no disadvantage.
typedef struct choice_result {
    uint32_t items, right, right_normal;
    double accuracy, error, normal, normal_error;
} choice_result;

// The index of the largest score, of equal ones the first.
uint32_t choice_answer(const choice_item *item, const double *scores, bool normal);
choice_result choices_result(const choice_task *task, const double *scores);

#endif
