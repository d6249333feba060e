// Scores of choices. The tokens that all choices of an item have in common are read once; each choice continues a copy of
// their keys and values. Many items are read together.
#include "eval/choices.h"
#include "eval/likelihood.h"

#include <stdlib.h>
#include <string.h>

// An item in work: ids of query and choice for each choice, one after the other.
typedef struct work {
    const choice_item *item;
    sequence *query;
    uint32_t shared;                          // tokens that the query's sequence has
    uint32_t begin[CHOICES_MAX_OPTIONS + 1];  // of the ids of each choice, and their end
    uint32_t answer[CHOICES_MAX_OPTIONS];     // tokens before the choice: those in common with the query
    sequence *sequences[CHOICES_MAX_OPTIONS];
    tokenizer_ids ids;
} work;

typedef struct scorer {
    engine *engine;
    tokenizer_encoder *encoder;
    likelihood *likelihood;
    work *works;
    likelihood_part *parts;  // [together * CHOICES_MAX_OPTIONS]
    uint32_t together;
    char *text;
    size_t text_capacity;
} scorer;

static braid_err encode_two(scorer *s, const char *query, const char *choice, tokenizer_ids *ids, braid_error *error) {
    size_t a = strlen(query), b = strlen(choice);
    if (s->text_capacity < a + b + 1) {
        char *more = realloc(s->text, 2 * (a + b) + 64);
        if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for the text of an item");
        s->text = more;
        s->text_capacity = 2 * (a + b) + 64;
    }
    memcpy(s->text, query, a);
    memcpy(s->text + a, choice, b);
    return tokenizer_encode(s->encoder, s->text, a + b, TOKENIZER_ADD_SPECIAL, ids, error);
}

static uint32_t common(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count) {
    uint32_t n = 0;
    while (n < a_count && n < b_count && a[n] == b[n]) n++;
    return n;
}

static braid_err fail_item(const work *w, braid_err code, braid_error *error, const char *text) {
    return braid_fail(error, code, "line %u of the choices: %s", w->item->line, text);
}

// The ids of an item. A token that the tokenizer adds at the end of a text is not part of the query.
static braid_err encode_item(scorer *s, work *w, braid_error *error) {
    tokenizer_ids query = {0};
    braid_err err = encode_two(s, w->item->query, "", &query, error);
    w->ids.count = 0;
    for (uint32_t i = 0; i < w->item->count && !err; i++) {
        w->begin[i] = (uint32_t)w->ids.count;
        err = encode_two(s, w->item->query, w->item->choices[i], &w->ids, error);
        if (err) break;
        uint32_t length = (uint32_t)w->ids.count - w->begin[i];
        w->answer[i] = common(query.at, query.count, w->ids.at + w->begin[i], length);
        if (w->answer[i] == 0 || w->answer[i] == length)
            err = fail_item(w, BRAID_FORMAT, error,
                            "the tokenizer gives no tokens to the query alone, or none to a choice");
        else if (length > engine_context(s->engine))
            err = fail_item(w, BRAID_LIMIT, error, "query and choice are longer than the model's context");
        if (i == 0 || w->answer[i] < w->shared + 1) w->shared = w->answer[i] - 1;
    }
    w->begin[w->item->count] = (uint32_t)w->ids.count;
    tokenizer_ids_free(&query);
    return err;
}

// Reads the common tokens of each item. An item without any is begun by its choices.
static braid_err read_queries(scorer *s, uint32_t count, braid_error *error) {
    uint32_t parts = 0;
    for (uint32_t i = 0; i < count; i++) {
        work *w = &s->works[i];
        braid_err err = sequence_new(s->engine, &w->query, error);
        if (err) return err;
        if (w->shared > 0) s->parts[parts++] = (likelihood_part){.read = {w->query, w->shared, w->ids.at}};
    }
    return parts > 0 ? likelihood_read(s->likelihood, s->parts, parts, error) : BRAID_OK;
}

// The token before a choice is read again with it, so that the rows of a part predict exactly the tokens of the choice.
static braid_err read_choices(scorer *s, uint32_t count, double *scores, braid_error *error) {
    uint32_t parts = 0, done = 0;
    for (uint32_t i = 0; i < count; i++) {
        work *w = &s->works[i];
        for (uint32_t c = 0; c < w->item->count; c++) {
            braid_err err = sequence_fork(w->query, w->shared, &w->sequences[c], error);
            if (err) return err;
            const uint32_t *ids = w->ids.at + w->begin[c];
            uint32_t length = w->begin[c + 1] - w->begin[c];
            s->parts[parts++] = (likelihood_part){.read = {w->sequences[c], length - 1 - w->shared, ids + w->shared},
                                                  .scored = length - w->answer[c],
                                                  .targets = ids + w->answer[c]};
        }
    }
    braid_err err = likelihood_read(s->likelihood, s->parts, parts, error);
    for (uint32_t i = 0; i < count && !err; i++)
        for (uint32_t c = 0; c < s->works[i].item->count; c++)
            scores[s->works[i].item->first + c] = s->parts[done++].sum;
    return err;
}

static void end_works(scorer *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        work *w = &s->works[i];
        for (uint32_t c = 0; c < w->item->count; c++) {
            sequence_free(w->sequences[c]);
            w->sequences[c] = NULL;
        }
        sequence_free(w->query);
        w->query = NULL;
    }
}

static braid_err score_all(scorer *s, const choice_task *task, const choice_settings *settings, double *scores,
                           braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t next = 0; next < task->count && !err;) {
        uint32_t count = 0;
        for (; count < s->together && next < task->count && !err; next++, count++) {
            s->works[count].item = &task->items[next];
            err = encode_item(s, &s->works[count], error);
        }
        if (!err) err = read_queries(s, count, error);
        if (!err) err = read_choices(s, count, scores, error);
        end_works(s, count);
        if (settings->progress && !err) settings->progress(settings->context, next, task->count);
    }
    return err;
}

braid_err choices_score(engine *e, const tokenizer *t, const choice_task *task, const choice_settings *settings,
                        double *scores, braid_error *error) {
    scorer s = {.engine = e, .together = settings->together ? settings->together : 1};
    if (s.together > task->count) s.together = task->count;
    s.encoder = tokenizer_encoder_new(t);
    s.works = calloc(s.together, sizeof *s.works);
    s.parts = calloc((size_t)s.together * CHOICES_MAX_OPTIONS, sizeof *s.parts);
    bool good = s.encoder && s.works && s.parts;
    braid_err err = good ? likelihood_new(e, &s.likelihood, error)
                         : braid_fail(error, BRAID_MEMORY, "no memory to read %u items", s.together);
    if (!err) err = score_all(&s, task, settings, scores, error);
    for (uint32_t i = 0; s.works && i < s.together; i++) tokenizer_ids_free(&s.works[i].ids);
    likelihood_free(s.likelihood);
    tokenizer_encoder_free(s.encoder);
    free(s.works);
    free(s.parts);
    free(s.text);
    return err;
}
