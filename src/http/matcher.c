#include "http/matcher.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = 0, UNKNOWN = UINT32_MAX - 1 };

// The top of a stack: an element of the grammar, and the node to which its rule returns. Equal
// nodes exist once.
typedef struct node {
    uint32_t element, parent, depth, stamp;
} node;

typedef struct state {
    uint32_t *node;  // [count], sorted
    uint32_t count;
    bool complete;
    uint32_t *next;  // [256], UNKNOWN: not computed
    void *note;
} state;

struct matcher {
    const grammar *g;
    node *nodes;  // [0] is the empty stack
    uint32_t node_count, node_capacity, *node_table, node_slots;
    state *states;
    uint32_t state_count, *state_table, state_slots;
    uint32_t stamp;
    uint32_t *set;  // the state under way: [set_count]
    uint32_t set_count;
    bool set_complete, failed;
    uint32_t work;
    uint32_t start;
};

static uint32_t mix(uint32_t h, uint32_t value) {
    h ^= value;
    h *= 0x9e3779b1u;
    return h ^ h >> 15;
}

// ---- nodes

static bool grow_nodes(matcher *m) {
    uint32_t capacity = m->node_capacity ? 2 * m->node_capacity : 1024, slots = 2 * capacity;
    if (capacity > MATCHER_MAX_NODES) return false;
    node *nodes = realloc(m->nodes, capacity * sizeof *nodes);
    if (!nodes) return false;
    m->nodes = nodes;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table) return false;
    free(m->node_table);
    m->node_table = table;
    m->node_capacity = capacity;
    m->node_slots = slots;
    for (uint32_t i = 1; i < m->node_count; i++) {
        uint32_t at = mix(mix(0, nodes[i].element), nodes[i].parent) & (slots - 1);
        while (table[at]) at = (at + 1) & (slots - 1);
        table[at] = i;
    }
    return true;
}

// NONE: there is no room.
static uint32_t find_node(matcher *m, uint32_t element, uint32_t parent) {
    if (m->node_count == m->node_capacity && !grow_nodes(m)) return NONE;
    uint32_t at = mix(mix(0, element), parent) & (m->node_slots - 1);
    for (; m->node_table[at]; at = (at + 1) & (m->node_slots - 1)) {
        const node *n = &m->nodes[m->node_table[at]];
        if (n->element == element && n->parent == parent) return m->node_table[at];
    }
    uint32_t depth = parent ? m->nodes[parent].depth + 1 : 1;
    if (depth > MATCHER_MAX_DEPTH) return NONE;
    m->nodes[m->node_count] = (node){element, parent, depth, 0};
    return m->node_table[at] = m->node_count++;
}

// Adds all stacks that begin at an element to the set under way, without reading a byte. Depth of
// the recursion: GRAMMAR_MAX_CHAIN for each return, and returns are a loop.
static void expand(matcher *m, uint32_t element, uint32_t parent) {
    const grammar *g = m->g;
    while (g->element[element].kind == GRAMMAR_END && parent) {
        element = m->nodes[parent].element;
        parent = m->nodes[parent].parent;
    }
    if (g->element[element].kind == GRAMMAR_END) {
        m->set_complete = true;
        return;
    }
    uint32_t top = find_node(m, element, parent);
    if (top == NONE || m->set_count == MATCHER_MAX_STACKS || ++m->work > MATCHER_MAX_WORK) {
        m->failed = true;
        return;
    }
    if (m->nodes[top].stamp == m->stamp) return;
    m->nodes[top].stamp = m->stamp;
    if (g->element[element].kind == GRAMMAR_SET) {
        m->set[m->set_count++] = top;
        return;
    }
    uint32_t rule = g->element[element].value, back = parent;
    // a rule at the end of another one returns to where that one returns, so lists need no stack
    if (g->element[element + 1].kind != GRAMMAR_END && (back = find_node(m, element + 1, parent)) == NONE) {
        m->failed = true;
        return;
    }
    for (uint32_t i = g->first_of[rule]; i < g->first_of[rule + 1] && !m->failed; i++)
        expand(m, g->alternative[i].first, back);
}

// ---- states

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void begin_set(matcher *m) {
    m->stamp++;
    m->set_count = 0;
    m->set_complete = m->failed = false;
}

static bool add_state(matcher *m) {
    state *s = &m->states[m->state_count];
    *s = (state){.count = m->set_count, .complete = m->set_complete};
    s->node = malloc((m->set_count + 1u) * sizeof *s->node);
    s->next = malloc(256 * sizeof *s->next);
    if (!s->node || !s->next) {
        free(s->node);
        free(s->next);
        return false;
    }
    if (s->count > 0) memcpy(s->node, m->set, s->count * sizeof *s->node);
    for (int i = 0; i < 256; i++) s->next[i] = UNKNOWN;
    m->state_count++;
    return true;
}

// The state of the set under way.
static uint32_t end_set(matcher *m) {
    if (m->failed || (m->set_count == 0 && !m->set_complete)) return MATCHER_DEAD;
    qsort(m->set, m->set_count, sizeof *m->set, by_number);
    uint32_t h = m->set_complete;
    for (uint32_t i = 0; i < m->set_count; i++) h = mix(h, m->set[i]);
    uint32_t at = h & (m->state_slots - 1);
    for (; m->state_table[at]; at = (at + 1) & (m->state_slots - 1)) {
        const state *s = &m->states[m->state_table[at] - 1];
        if (s->count == m->set_count && s->complete == m->set_complete &&
            (s->count == 0 || memcmp(s->node, m->set, s->count * sizeof *s->node) == 0))
            return m->state_table[at] - 1;
    }
    if (m->state_count == MATCHER_MAX_STATES || !add_state(m)) return MATCHER_DEAD;
    m->state_table[at] = m->state_count;
    return m->state_count - 1;
}

matcher *matcher_new(const grammar *g) {
    matcher *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->g = g;
    m->node_count = 1;
    m->state_slots = 4 * MATCHER_MAX_STATES;
    m->state_table = calloc(m->state_slots, sizeof *m->state_table);
    m->states = malloc(MATCHER_MAX_STATES * sizeof *m->states);
    m->set = malloc(MATCHER_MAX_STACKS * sizeof *m->set);
    if (!m->state_table || !m->states || !m->set || !grow_nodes(m)) {
        matcher_free(m);
        return NULL;
    }
    m->nodes[0] = (node){0};
    begin_set(m);
    for (uint32_t i = g->first_of[g->root]; i < g->first_of[g->root + 1] && !m->failed; i++)
        expand(m, g->alternative[i].first, NONE);
    m->start = end_set(m);
    return m;
}

void matcher_free(matcher *m) {
    if (!m) return;
    for (uint32_t i = 0; i < m->state_count; i++) {
        free(m->states[i].node);
        free(m->states[i].next);
    }
    free(m->nodes);
    free(m->node_table);
    free(m->states);
    free(m->state_table);
    free(m->set);
    free(m);
}

uint32_t matcher_start(matcher *m) { return m->start; }

uint32_t matcher_next(matcher *m, uint32_t from, unsigned char byte) {
    if (from == MATCHER_DEAD) return MATCHER_DEAD;
    uint32_t known = m->states[from].next[byte];
    if (known != UNKNOWN) return known;
    begin_set(m);
    const state *s = &m->states[from];
    for (uint32_t i = 0; i < s->count && !m->failed; i++) {
        uint32_t element = m->nodes[s->node[i]].element, parent = m->nodes[s->node[i]].parent;
        if (grammar_set_has(&m->g->set[m->g->element[element].value], byte)) expand(m, element + 1, parent);
    }
    uint32_t to = end_set(m);
    if (m->work <= MATCHER_MAX_WORK) m->states[from].next[byte] = to;
    return to;
}

void matcher_rest(matcher *m) { m->work = 0; }

bool matcher_complete(const matcher *m, uint32_t s) { return s != MATCHER_DEAD && m->states[s].complete; }

void **matcher_note(matcher *m, uint32_t s) { return &m->states[s].note; }

uint32_t matcher_states(const matcher *m) { return m->state_count; }
