#include "http/grammar.h"

#include <stdlib.h>
#include <string.h>

grammar *grammar_new(void) { return calloc(1, sizeof(grammar)); }

void grammar_free(grammar *g) {
    if (!g) return;
    free(g->element);
    free(g->set);
    free(g->alternative);
    free(g->first_of);
    free(g);
}

// Makes room for `more` entries of an array.
static bool reserve(grammar *g, void **at, uint32_t *capacity, uint32_t count, uint32_t more, uint32_t most,
                    size_t bytes) {
    if (g->error.code) return false;
    if (more > most || count > most - more) {
        braid_fail(&g->error, BRAID_LIMIT, "the grammar is too large");
        return false;
    }
    if (count + more <= *capacity) return true;
    uint32_t larger = 2 * (count + more) + 16;
    void *memory = realloc(*at, larger * bytes);
    if (!memory) {
        braid_fail(&g->error, BRAID_MEMORY, "no memory for a grammar");
        return false;
    }
    *at = memory;
    *capacity = larger;
    return true;
}

uint32_t grammar_rule(grammar *g) {
    if (g->rules < GRAMMAR_MAX_RULES) return g->rules++;
    if (!g->error.code) braid_fail(&g->error, BRAID_LIMIT, "the grammar has more than %d rules", GRAMMAR_MAX_RULES);
    return 0;
}

void grammar_put(grammar *g, grammar_sequence *s, grammar_kind kind, uint32_t value) {
    void *at = s->at;
    if (!reserve(g, &at, &s->capacity, s->count, 1, GRAMMAR_MAX_ELEMENTS, sizeof *s->at)) return;
    s->at = at;
    s->at[s->count++] = (grammar_element){kind, value};
}

static uint32_t add_set(grammar *g, const grammar_set *set) {
    for (uint32_t i = g->sets; i > 0 && i + 64 > g->sets; i--)
        if (memcmp(&g->set[i - 1], set, sizeof *set) == 0) return i - 1;
    void *at = g->set;
    if (!reserve(g, &at, &g->set_capacity, g->sets, 1, GRAMMAR_MAX_SETS, sizeof *g->set)) return 0;
    g->set = at;
    g->set[g->sets] = *set;
    return g->sets++;
}

static void put_bytes(grammar *g, grammar_sequence *s, unsigned from, unsigned to) {
    grammar_set set = {{0}};
    for (unsigned b = from; b <= to; b++) set.bits[b >> 6] |= UINT64_C(1) << (b & 63);
    grammar_put(g, s, GRAMMAR_SET, add_set(g, &set));
}

void grammar_put_text(grammar *g, grammar_sequence *s, const char *text, size_t length) {
    for (size_t i = 0; i < length && !g->error.code; i++)
        put_bytes(g, s, (unsigned char)text[i], (unsigned char)text[i]);
}

// ---- classes of code points as bytes

static uint32_t encode(uint32_t c, unsigned char out[4]) {
    if (c < 0x80) return out[0] = (unsigned char)c, 1;
    uint32_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (unsigned char)(lead[more] | c >> (6 * more));
    for (uint32_t i = 1; i <= more; i++) out[i] = (unsigned char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

// An alternative of `rule`: all code points from `from` to `to`. Their encodings have one length and
// differ in one range for each byte.
static void add_bytes(grammar *g, uint32_t rule, uint32_t from, uint32_t to) {
    unsigned char a[4], b[4];
    uint32_t n = encode(from, a);
    encode(to, b);
    grammar_sequence s = {0};
    for (uint32_t i = 0; i < n; i++) put_bytes(g, &s, a[i], b[i]);
    grammar_alternative_add(g, rule, &s);
}

// Cuts a range so that each part is one range for each byte of its encoding.
static void add_range(grammar *g, uint32_t rule, uint32_t from, uint32_t to) {
    static const uint32_t lengths[] = {0x7f, 0x7ff, 0xffff};
    while (from <= to && !g->error.code) {
        uint32_t end = to;
        for (int i = 0; i < 3; i++)
            if (from <= lengths[i] && end > lengths[i]) end = lengths[i];
        for (uint32_t bits = 6; bits <= 18 && from >= 0x80; bits += 6) {
            uint32_t mask = (1u << bits) - 1;
            if ((from & ~mask) == (end & ~mask)) break;
            if (from & mask)
                end = from | mask;
            else if ((end & mask) != mask)
                end = (end & ~mask) - 1;
        }
        add_bytes(g, rule, from, end);
        from = end + 1;
    }
}

// Without the surrogates, which UTF-8 does not have.
static void add_valid(grammar *g, uint32_t rule, uint32_t from, uint32_t to) {
    if (from < 0xd800) add_range(g, rule, from, to < 0xd7ff ? to : 0xd7ff);
    if (to > 0xdfff) add_range(g, rule, from > 0xe000 ? from : 0xe000, to);
}

static int by_start(const void *a, const void *b) {
    uint32_t x = ((const grammar_range *)a)->from, y = ((const grammar_range *)b)->from;
    return x < y ? -1 : x > y;
}

void grammar_put_class(grammar *g, grammar_sequence *s, const grammar_range *ranges, uint32_t count, bool inverse) {
    uint32_t rule = grammar_rule(g), next = 0;
    grammar_range *sorted = malloc((count + 1u) * sizeof *sorted);
    if (!sorted) {
        braid_fail(&g->error, BRAID_MEMORY, "no memory for a grammar");
        return;
    }
    if (count > 0) memcpy(sorted, ranges, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_start);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = sorted[i].from > next ? sorted[i].from : next, to = sorted[i].to;
        if (inverse && sorted[i].from > next) add_valid(g, rule, next, sorted[i].from - 1);
        if (!inverse && from <= to) add_valid(g, rule, from, to);
        if (to + 1 > next) next = to + 1;
    }
    if (inverse && next <= 0x10ffff) add_valid(g, rule, next, 0x10ffff);
    free(sorted);
    grammar_put(g, s, GRAMMAR_RULE, rule);
}

// ---- rules

void grammar_alternative_add(grammar *g, uint32_t rule, grammar_sequence *s) {
    void *elements = g->element, *alternatives = g->alternative;
    if (reserve(g, &elements, &g->element_capacity, g->elements, s->count + 1, GRAMMAR_MAX_ELEMENTS,
                sizeof *g->element)) {
        g->element = elements;
        if (reserve(g, &alternatives, &g->alternative_capacity, g->alternatives, 1, GRAMMAR_MAX_ELEMENTS,
                    sizeof *g->alternative)) {
            g->alternative = alternatives;
            g->alternative[g->alternatives++] = (grammar_alternative){rule, g->elements};
            if (s->count > 0) memcpy(g->element + g->elements, s->at, s->count * sizeof *s->at);
            g->elements += s->count;
            g->element[g->elements++] = (grammar_element){GRAMMAR_END, 0};
        }
    }
    free(s->at);
    *s = (grammar_sequence){0};
}

// item, then `rest`; or nothing.
static uint32_t optional(grammar *g, uint32_t item, uint32_t rule, uint32_t rest, bool has_rest) {
    grammar_sequence s = {0};
    grammar_put(g, &s, GRAMMAR_RULE, item);
    if (has_rest) grammar_put(g, &s, GRAMMAR_RULE, rest);
    grammar_alternative_add(g, rule, &s);
    grammar_alternative_add(g, rule, &s);
    return rule;
}

uint32_t grammar_repeat(grammar *g, uint32_t item, uint32_t least, uint32_t most) {
    uint32_t tail = 0;
    bool has_tail = false;
    if (most == UINT32_MAX) {
        tail = grammar_rule(g);
        optional(g, item, tail, tail, true);
        has_tail = true;
    } else {
        for (uint32_t i = least; i < most && !g->error.code; i++, has_tail = true)
            tail = optional(g, item, grammar_rule(g), tail, has_tail);
    }
    uint32_t rule = grammar_rule(g);
    grammar_sequence s = {0};
    for (uint32_t i = 0; i < least && !g->error.code; i++) grammar_put(g, &s, GRAMMAR_RULE, item);
    if (has_tail) grammar_put(g, &s, GRAMMAR_RULE, tail);
    grammar_alternative_add(g, rule, &s);
    return rule;
}

// ---- checks

static int by_rule(const void *a, const void *b) {
    const grammar_alternative *x = a, *y = b;
    if (x->rule != y->rule) return x->rule < y->rule ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static bool order(grammar *g) {
    g->first_of = calloc(g->rules + 1u, sizeof *g->first_of);
    if (!g->first_of) return false;
    if (g->alternatives > 0) qsort(g->alternative, g->alternatives, sizeof *g->alternative, by_rule);
    uint32_t at = 0;
    for (uint32_t r = 0; r <= g->rules; r++) {
        while (at < g->alternatives && g->alternative[at].rule < r) at++;
        g->first_of[r] = at;
    }
    return true;
}

// Rules that may match nothing. False: more than GRAMMAR_MAX_CHAIN rules depend on one another.
static bool find_nullable(const grammar *g, bool *nullable) {
    bool changed = true;
    for (uint32_t pass = 0; changed && pass <= GRAMMAR_MAX_CHAIN; pass++) {
        changed = false;
        for (uint32_t i = 0; i < g->alternatives; i++) {
            uint32_t rule = g->alternative[i].rule;
            const grammar_element *e = &g->element[g->alternative[i].first];
            while (!nullable[rule] && e->kind == GRAMMAR_RULE && nullable[e->value]) e++;
            if (nullable[rule] || e->kind != GRAMMAR_END) continue;
            nullable[rule] = changed = true;
        }
    }
    return !changed;
}

typedef struct walk {
    const grammar *g;
    const bool *nullable;
    unsigned char *state;  // 0 new, 1 under way, 2 done
    uint32_t *chain;       // longest chain of rules that begin with one another, from this one
} walk;

static bool chain_ends(walk *w, uint32_t rule, uint32_t depth) {
    if (w->state[rule] == 2) return depth + w->chain[rule] <= GRAMMAR_MAX_CHAIN;
    if (w->state[rule] == 1 || depth > GRAMMAR_MAX_CHAIN) return false;
    w->state[rule] = 1;
    uint32_t longest = 0;
    for (uint32_t i = w->g->first_of[rule]; i < w->g->first_of[rule + 1]; i++) {
        const grammar_element *e = &w->g->element[w->g->alternative[i].first];
        for (; e->kind == GRAMMAR_RULE; e++) {
            if (!chain_ends(w, e->value, depth + 1)) return false;
            if (w->chain[e->value] + 1 > longest) longest = w->chain[e->value] + 1;
            if (!w->nullable[e->value]) break;
        }
    }
    w->state[rule] = 2;
    w->chain[rule] = longest;
    return true;
}

braid_err grammar_finish(grammar *g, uint32_t root, braid_error *error) {
    g->root = root;
    bool *nullable = calloc(g->rules + 1u, sizeof *nullable);
    walk w = {g, nullable, calloc(g->rules + 1u, 1), calloc(g->rules + 1u, sizeof(uint32_t))};
    bool memory = nullable && w.state && w.chain && (g->error.code || order(g));
    if (!memory && !g->error.code) braid_fail(&g->error, BRAID_MEMORY, "no memory for a grammar");
    if (!g->error.code) {
        bool found = find_nullable(g, nullable);
        for (uint32_t r = 0; r < g->rules && !g->error.code; r++)
            if (!found || !chain_ends(&w, r, 0))
                braid_fail(&g->error, BRAID_ARGUMENT,
                           "a rule of the grammar begins with itself, or more than %d rules begin with one another",
                           GRAMMAR_MAX_CHAIN);
    }
    free(nullable);
    free(w.state);
    free(w.chain);
    if (g->error.code && error) *error = g->error;
    return g->error.code;
}
