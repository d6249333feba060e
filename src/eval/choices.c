#include "eval/choices.h"

#include "format/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- memory: one block for each item, linked

typedef struct block {
    struct block *next;
} block;

static void *take(choice_task *t, size_t bytes) {
    block *b = calloc(1, sizeof *b + bytes);
    if (!b) return NULL;
    b->next = t->memory;
    t->memory = b;
    return b + 1;
}

void choice_task_free(choice_task *t) {
    for (block *b = t->memory, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(t->items);
    free(t->name);
    *t = (choice_task){0};
}

// ---- one line

typedef struct line {
    const char *path;
    uint32_t number;
} line;

static braid_err fail(const line *l, braid_error *error, const char *text) {
    return braid_fail(error, BRAID_FORMAT, "%.300s, line %u: %s", l->path, l->number, text);
}

static braid_err check(const line *l, const json *d, const json_value *root, uint64_t *gold, braid_error *error) {
    const json_value *query = json_member(d, root, "query"), *choices = json_member(d, root, "choices");
    if (root->kind != JSON_OBJECT || !query || query->kind != JSON_STRING)
        return fail(l, error, "'query' must be a text");
    if (query->length == 0) return fail(l, error, "'query' is empty, so nothing precedes the choices");
    if (!choices || choices->kind != JSON_ARRAY || choices->count < 2 || choices->count > CHOICES_MAX_OPTIONS)
        return fail(l, error, "'choices' must be an array of 2 to 64 texts");
    for (const json_value *c = json_first(d, choices); c; c = json_next(d, c))
        if (c->kind != JSON_STRING || c->length == 0)
            return fail(l, error, "'choices' has an element that is no text, or empty");
    if (!json_u64(json_member(d, root, "gold"), gold) || *gold >= choices->count)
        return fail(l, error, "'gold' must be the index of a choice, counted from 0");
    return BRAID_OK;
}

static char *copy(const char *text, uint32_t length, char **at) {
    char *start = *at;
    memcpy(start, text, length + 1);
    *at += length + 1;
    return start;
}

static braid_err add_item(choice_task *t, const line *l, const json *d, uint64_t gold, braid_error *error) {
    const json_value *query = json_member(d, json_root(d), "query"), *choices = json_member(d, json_root(d), "choices");
    size_t bytes = choices->count * sizeof(char *) + query->length + 1;
    for (const json_value *c = json_first(d, choices); c; c = json_next(d, c)) bytes += c->length + 1;
    if (t->count == CHOICES_MAX_ITEMS) return fail(l, error, "there are too many items");
    if ((t->count & (t->count - 1)) == 0) {
        choice_item *more = realloc(t->items, 2 * (t->count + 1) * sizeof *more);
        if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for the items of %s", l->path);
        t->items = more;
    }
    const char **texts = take(t, bytes);
    if (!texts) return braid_fail(error, BRAID_MEMORY, "no memory for the items of %s", l->path);
    char *at = (char *)(texts + choices->count);
    uint32_t i = 0;
    for (const json_value *c = json_first(d, choices); c; c = json_next(d, c))
        texts[i++] = copy(c->text, c->length, &at);
    t->items[t->count++] = (choice_item){
        l->number, (uint32_t)gold, choices->count, copy(query->text, query->length, &at), texts, t->choices};
    t->choices += choices->count;
    return BRAID_OK;
}

static braid_err read_line(choice_task *t, const line *l, const char *text, size_t length, braid_error *error) {
    json *d = NULL;
    braid_error inner = {0};
    uint64_t gold = 0;
    if (length > CHOICES_MAX_LINE_BYTES) return fail(l, error, "the line is longer than 1 MiB");
    braid_err err = json_parse(text, length, &d, &inner);
    if (err) return fail(l, error, inner.text);
    err = check(l, d, json_root(d), &gold, error);
    if (!err) err = add_item(t, l, d, gold, error);
    json_free(d);
    return err;
}

static bool is_blank(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

static char *name_of(const char *path) {
    const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path, *dot = strrchr(start, '.');
    return strndup(start, dot && dot > start ? (size_t)(dot - start) : strlen(start));
}

static braid_err read_file(FILE *file, const char *path, choice_task *t, braid_error *error) {
    char *text = NULL;
    size_t capacity = 0, total = 0;
    braid_err err = BRAID_OK;
    line l = {path, 0};
    for (ssize_t n; !err && (n = getline(&text, &capacity, file)) >= 0;) {
        size_t length = (size_t)n;
        l.number++;
        total += length;
        if (length > 0 && text[length - 1] == '\n') length--;
        if (total > CHOICES_MAX_FILE_BYTES)
            err = braid_fail(error, BRAID_LIMIT, "%.300s is longer than 1 GiB", path);
        else if (!is_blank(text, length))
            err = read_line(t, &l, text, length, error);
    }
    if (!err && ferror(file)) err = braid_fail(error, BRAID_IO, "cannot read %.300s: %s", path, strerror(errno));
    free(text);
    return err;
}

braid_err choice_task_read(const char *path, choice_task *out, braid_error *error) {
    *out = (choice_task){0};
    FILE *file = fopen(path, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open %.300s: %s", path, strerror(errno));
    out->name = name_of(path);
    braid_err err = out->name ? read_file(file, path, out, error)
                              : braid_fail(error, BRAID_MEMORY, "no memory for %.300s", path);
    fclose(file);
    if (!err && out->count == 0) err = braid_fail(error, BRAID_FORMAT, "%.300s has no items", path);
    return err;
}

// ---- results

uint32_t choice_answer(const choice_item *item, const double *scores, bool normal) {
    uint32_t best = 0;
    double most = 0;
    for (uint32_t i = 0; i < item->count; i++) {
        double score = scores[item->first + i];
        if (normal) score /= (double)strlen(item->choices[i]);
        if (i == 0 || score > most) {
            best = i;
            most = score;
        }
    }
    return best;
}

static double standard_error(double p, uint32_t n) { return n > 1 ? sqrt(p * (1 - p) / (n - 1)) : 0; }

choice_result choices_result(const choice_task *task, const double *scores) {
    choice_result r = {.items = task->count};
    for (uint32_t i = 0; i < task->count; i++) {
        const choice_item *item = &task->items[i];
        r.right += choice_answer(item, scores, false) == item->gold;
        r.right_normal += choice_answer(item, scores, true) == item->gold;
    }
    r.accuracy = task->count ? (double)r.right / task->count : 0;
    r.normal = task->count ? (double)r.right_normal / task->count : 0;
    r.error = standard_error(r.accuracy, r.items);
    r.normal_error = standard_error(r.normal, r.items);
    return r;
}
