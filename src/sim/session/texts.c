// The hosts of origins: texts, drafts, and the comparison with the undisturbed text.
#include "sim/session/inside.h"

#include <string.h>

world_text *text_of(world *w, uint32_t node, uint64_t number) {
    for (uint32_t i = 0; i < WORLD_TEXTS; i++) {
        world_text *t = &w->text[i];
        if (t->used && !t->ended && t->node == node && t->life == w->node[node].life && t->number == number) return t;
    }
    return NULL;
}

// The text as one process would write it.
// The prompt may begin with `shared` tokens.
static void write_reference(world *w, world_text *t, const uint64_t *shared, uint32_t shared_count, uint32_t prompt,
                            uint32_t turn, uint32_t turn_end) {
    static _Thread_local uint64_t chain[WORLD_LAYERS][WORLD_TOKENS];
    for (uint32_t n = 0; n < t->total; n++) {
        t->given[n] = n < prompt || (n >= turn && n < turn_end);
        bool begins = n < prompt && n < shared_count;
        t->token[n] = begins ? shared[n] : t->given[n] ? rng_next(&w->random) % 1000 : model_token(t->row[n - 1]);
        t->row[n] = model_row(chain, 0, w->layers, n, model_embed(t->token[n]));
    }
}

// The beginning of many texts, or an earlier text to its end, as the next turn of a conversation has it.
static const uint64_t *choose_shared(world *w, uint32_t *count) {
    const world_text *earlier = &w->text[rng_below(&w->random, WORLD_TEXTS)];
    *count = 0;
    switch (rng_below(&w->random, 5)) {
    case 0: return NULL;
    case 1:
    case 2:
        if (!earlier->used || !earlier->ended || earlier->lost || earlier->total > 100) return NULL;
        *count = earlier->total;
        return earlier->token;
    default: *count = 1 + (uint32_t)rng_below(&w->random, WORLD_PREFIX);
    }
    return w->prefix[rng_below(&w->random, WORLD_PREFIXES)];
}

// Names of whole pages, drafts among them. The newest are on their way to spans and are named again.
static void name_pages(world *w, world_text *t) {
    session_key keys[WORLD_TOKENS / WORLD_PAGE];
    uint32_t pages = pages_keys(t->fed, t->length, keys), computed = t->output / WORLD_PAGE;
    for (uint32_t from = t->named; from < pages; from += 8) {
        uint32_t count = pages - from < 8 ? pages - from : 8;
        session_event e = {.kind = SESSION_EVENT_NAME,
                           .number = t->number,
                           .position = from,
                           .keys = keys + from,
                           .key_count = (uint16_t)count};
        host_event(w, t->node, &e);
    }
    if (t->named < computed) t->named = computed;
}

// Tokens that are not fed yet, and a few guesses.
static void next_step(world *w, world_text *t) {
    uint32_t common = 0;
    while (common < t->length && common < t->known && t->fed[common] == t->token[common]) common++;
    uint32_t position = common < t->known ? common : t->known - 1;
    uint32_t count = t->known - position;
    if (t->named > position / WORLD_PAGE) t->named = position / WORLD_PAGE;
    for (uint32_t n = position; n < t->known; n++) t->fed[n] = t->token[n];
    for (uint32_t k = 0; k < t->drafts && t->known + k < t->total && !t->given[t->known + k]; k++) {
        bool right = rng_below(&w->random, 10) < 7;
        t->fed[t->known + k] = right ? t->token[t->known + k] : 5000 + k;
        count++;
    }
    t->length = position + count;
    t->output = t->known - 1;
    world_trace(w, "n%u text %llu: step %u+%u home %u", t->node, (unsigned long long)t->number, position, count,
                t->output);
    session_event e = {
        .kind = SESSION_EVENT_STEP, .number = t->number, .position = position, .count = count, .home = t->output};
    host_event(w, t->node, &e);
    if (rng_below(&w->random, 3) > 0) name_pages(w, t);
    if (t->length > t->known) fault_in_window(w, t);
}

void text_begin(world *w) {
    world_text *t = NULL;
    for (uint32_t i = 0; i < WORLD_TEXTS && !t; i++) {
        if (!w->text[i].used) t = &w->text[i];
    }
    uint32_t node = (uint32_t)rng_below(&w->random, w->origins);
    if (!t || !w->node[node].alive || w->node[node].leaving || session_own_room(w->node[node].peer) == 0) return;
    uint32_t shared_count;
    const uint64_t *shared = choose_shared(w, &shared_count);
    uint32_t prompt = 1 + shared_count / 2 + (uint32_t)rng_below(&w->random, 60),
             more = 4 + (uint32_t)rng_below(&w->random, 60);
    memset(t, 0, sizeof *t);
    t->used = true;
    t->node = node;
    t->life = w->node[node].life;
    t->number = ++w->numbers;
    t->total = prompt + more;
    t->drafts = rng_below(&w->random, 2) ? (uint32_t)rng_below(&w->random, 5) : 0;
    if (w->mode == SESSION_SIM_WINDOWS) t->drafts = 1 + (uint32_t)rng_below(&w->random, 12);
    uint32_t turn = prompt + 1 + (uint32_t)rng_below(&w->random, more), length = (uint32_t)rng_below(&w->random, 12);
    write_reference(w, t, shared, shared_count, prompt, turn, turn + length);
    t->known = prompt;
    t->last_ns = w->now;
    w->result->texts++;
    session_key keys[WORLD_TOKENS / WORLD_PAGE];
    session_open open = {.layers = w->layers, .room = rng_below(&w->random, 3) ? t->total : prompt, .prompt = prompt};
    open.keys = keys;
    open.key_count = (uint16_t)pages_keys(t->token, prompt - 1, keys);
    t->waits = open.key_count > 0 && rng_below(&w->random, 2);
    session_event e = {.kind = SESSION_EVENT_OPEN, .number = t->number, .open = &open};
    host_event(w, node, &e);
    if (!t->waits) next_step(w, t);
}

void text_began(world *w, uint32_t node, uint64_t number) {
    world_text *t = text_of(w, node, number);
    if (!t || !t->waits) return;
    t->waits = false;
    t->step_due = true;
}

void text_end(world *w, world_text *t) {
    t->ended = true;
    session_event e = {.kind = SESSION_EVENT_END, .number = t->number};
    host_event(w, t->node, &e);
}

static void learn_token(world *w, world_text *t, uint64_t row) {
    uint32_t at = t->known - 1;
    if (row != t->row[at]) {
        world_fail(w, "n%u text %llu: the output at position %u differs from the undisturbed one", t->node,
                   (unsigned long long)t->number, at);
        return;
    }
    w->result->tokens++;
    if (w->now - t->last_ns > w->result->longest_wait_ns) w->result->longest_wait_ns = w->now - t->last_ns;
    t->last_ns = w->now;
    if (t->known < t->total) t->known++;
    while (t->known < t->total && t->given[t->known]) t->known++;
}

void text_output(world *w, uint32_t node, const session_effect *e, const world_blob *blob) {
    world_text *t = text_of(w, node, e->number);
    if (!t) {
        world_fail(w, "n%u has an output for session %llu, which it does not have", node,
                   (unsigned long long)e->number);
        return;
    }
    if (t->step_due || t->end_due) return;  // a draft was refused before these
    if (e->position != t->output || e->position + e->count > t->length || e->first_row + e->count > blob->count) {
        world_fail(w, "n%u text %llu: outputs %u+%u where %u of %u come next", node, (unsigned long long)t->number,
                   e->position, e->count, t->output, t->length);
        return;
    }
    for (uint32_t k = 0; k < e->count; k++) {
        uint32_t at = e->position + k, before = t->known;
        t->output = at + 1;
        bool complete = t->known == t->total && at == t->total - 1;
        learn_token(w, t, blob->values[e->first_row + k]);
        if (w->result->failed) return;
        if (complete) {
            w->result->finished++;
            t->end_due = true;
            return;
        }
        bool goes_on = t->known == before + 1 && before < t->length && t->fed[before] == t->token[before];
        if (goes_on) continue;
        w->result->refused_drafts += t->length > before;
        t->step_due = true;
        return;
    }
    if (t->output == t->length) t->step_due = true;
}

void texts_go_on(world *w, uint32_t node) {
    for (uint32_t i = 0; i < WORLD_TEXTS && !w->result->failed; i++) {
        world_text *t = &w->text[i];
        if (!t->used || t->ended || t->node != node || (!t->step_due && !t->end_due)) continue;
        bool end = t->end_due;
        t->step_due = t->end_due = false;
        if (end)
            text_end(w, t);
        else
            next_step(w, t);
    }
}

uint64_t text_fed(const world *w, uint32_t node, uint64_t number, uint32_t position, bool *ok) {
    for (uint32_t i = 0; i < WORLD_TEXTS; i++) {
        const world_text *t = &w->text[i];
        if (!t->used || t->ended || t->node != node || t->life != w->node[node].life || t->number != number) continue;
        *ok = position < t->length;
        return *ok ? t->fed[position] : 0;
    }
    *ok = false;
    return 0;
}

void texts_lose(world *w, uint32_t node) {
    for (uint32_t i = 0; i < WORLD_TEXTS; i++) {
        world_text *t = &w->text[i];
        if (!t->used || t->ended || t->node != node) continue;
        t->ended = t->lost = true;
        w->result->lost++;
    }
}
