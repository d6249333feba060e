#include "cli/tune_join.h"

#include "cli/cli.h"
#include "node/ticket.h"

#include <stdio.h>

enum { MOST_WORDS = 16, NUMBER_TEXT = 24 };

typedef struct words {
    char *list[MOST_WORDS + 1];
    char number[2][NUMBER_TEXT];
    int count, numbers;
} words;

static void add(words *w, const char *word) { w->list[w->count++] = (char *)(uintptr_t)word; }

static void add_number(words *w, const char *flag, uint64_t value) {
    if (!value) return;
    char *text = w->number[w->numbers++];
    snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)value);
    add(w, flag);
    add(w, text);
}

// The same as `braid node`, which has all flags of a member.
int tune_join(const tune_join_flags *flags) {
    words w = {.count = 0};
    ticket join;
    braid_error error;
    if (ticket_parse(flags->ticket, &join, &error)) return cli_complain(CLI_USAGE, "tune", "--join: %s", error.text);
    add(&w, "node");
    add(&w, "--join");
    add(&w, flags->ticket);
    add(&w, join.serves ? "--model" : "--from");
    add(&w, flags->model);
    add_number(&w, "--threads", flags->threads);
    add_number(&w, "--max-memory", flags->max_memory);
    if (flags->json) add(&w, "--json");
    return cli_node(w.count, w.list);
}
