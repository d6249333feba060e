#include "text/inside.h"

static int compare(const void *a, const void *b) {
    const trie_key *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->length < y->length ? x->length : y->length);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

// Keys [first, last) share `depth` bytes and stand at `node`. A queue of such ranges lays the children of a node out side by side.
typedef struct pending {
    uint32_t node, first, last, depth;
} pending;

static uint32_t lay_out(trie *t, const trie_key *keys, pending p, pending *queue, uint32_t end) {
    trie_node *node = &t->nodes[p.node];
    uint32_t i = p.first;
    while (i < p.last && keys[i].length == p.depth) node->value = keys[i++].value;
    node->children = t->count;
    while (i < p.last) {
        uint32_t from = i;
        uint8_t label = (uint8_t)keys[i].at[p.depth];
        while (i < p.last && (uint8_t)keys[i].at[p.depth] == label) i++;
        t->nodes[t->count] = (trie_node){0, 0, TOKENIZER_NO_ID, label};
        queue[end++] = (pending){t->count++, from, i, p.depth + 1};
    }
    node->count = t->count - node->children;
    return end;
}

braid_err trie_build(trie *t, trie_key *keys, uint32_t count, bool unique, braid_error *error) {
    size_t bytes = 1;
    qsort(keys, count, sizeof *keys, compare);
    for (uint32_t i = 0; i < count; i++) {
        bytes += keys[i].length;
        bool again = i > 0 && keys[i].length == keys[i - 1].length &&
                     memcmp(keys[i].at, keys[i - 1].at, keys[i].length) == 0;
        if (unique && (again || keys[i].length == 0))
            return braid_fail(error, BRAID_FORMAT, "two added tokens have the same normalized text '%.*s'",
                              (int)(keys[i].length < 64 ? keys[i].length : 64), keys[i].at);
    }
    if (bytes > UINT32_MAX / 2) return braid_fail(error, BRAID_LIMIT, "the vocabulary is too large");
    t->nodes = malloc(bytes * sizeof *t->nodes);
    pending *queue = malloc(bytes * sizeof *queue);
    if (!t->nodes || !queue) {
        free(queue);
        trie_free(t);
        return text_no_memory(error);
    }
    t->count = 1;
    t->nodes[0] = (trie_node){0, 0, TOKENIZER_NO_ID, 0};
    uint32_t end = 1;
    queue[0] = (pending){0, 0, count, 0};
    for (uint32_t begin = 0; begin < end; begin++) end = lay_out(t, keys, queue[begin], queue, end);
    free(queue);
    void *fitting = realloc(t->nodes, t->count * sizeof *t->nodes);
    if (fitting) t->nodes = fitting;
    return BRAID_OK;
}

void trie_free(trie *t) {
    free(t->nodes);
    *t = (trie){0};
}

uint32_t trie_child(const trie *t, uint32_t node, uint8_t label) {
    uint32_t low = t->nodes[node].children, high = low + t->nodes[node].count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->nodes[middle].label == label) return middle;
        if (t->nodes[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
