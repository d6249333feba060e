// Set-up of a routing run: one router per peer, a wire in each direction between neighbours.
#include "bench/routing/routing_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void routing_net_fail(routing_net *n, braid_err code, const char *format, ...) {
    if (n->failed) return;
    n->failed = true;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    braid_fail(n->error, code, "%s", text);
}

// A wire while they are being sorted.
typedef struct pair {
    uint32_t from, to;
} pair;

static int compare_pairs(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static bool same_stage(const plan_problem *p, uint32_t a, uint32_t b) {
    return a != b && p->peer[a].stage != 0 && p->peer[a].stage == p->peer[b].stage;
}

// Every link is a wire in each direction; gwtf also sends messages within a stage.
static pair *list_pairs(routing_net *n) {
    const plan_problem *p = &n->instance->problem;
    bool within = n->settings->algorithm == ROUTER_GWTF;
    size_t most = (size_t)p->links * 2 + 1;
    for (uint32_t i = 0; within && i < p->peers; i++)
        for (uint32_t j = 0; j < p->peers; j++) most += same_stage(p, i, j);
    pair *list = calloc(most, sizeof *list);
    if (list == NULL) return NULL;
    for (uint32_t l = 0; l < p->links; l++) {
        list[n->wires++] = (pair){p->link[l].from, p->link[l].to};
        list[n->wires++] = (pair){p->link[l].to, p->link[l].from};
    }
    for (uint32_t i = 0; within && i < p->peers; i++)
        for (uint32_t j = 0; j < p->peers; j++)
            if (same_stage(p, i, j)) list[n->wires++] = (pair){i, j};
    qsort(list, n->wires, sizeof *list, compare_pairs);
    return list;
}

static braid_err open_wires(routing_net *n) {
    pair *list = list_pairs(n);
    n->wire = calloc(n->wires + 1, sizeof *n->wire);
    n->wire_to = calloc(n->wires + 1, sizeof *n->wire_to);
    n->fallen = calloc(n->wires + 1, sizeof *n->fallen);
    n->first_wire = calloc(n->peers + 1, sizeof *n->first_wire);
    bool good = list != NULL && n->wire != NULL && n->wire_to != NULL && n->fallen != NULL && n->first_wire != NULL;
    uint64_t seed = rng_seed(n->instance->seed, 1);
    for (uint32_t w = 0; good && w < n->wires; w++) {
        n->wire[w].random.state = rng_seed(rng_seed(seed, list[w].from), list[w].to);
        n->wire_to[w] = list[w].to;
        n->first_wire[list[w].from + 1] = w + 1;
    }
    for (uint32_t i = 1; good && i <= n->peers; i++)
        if (n->first_wire[i] < n->first_wire[i - 1]) n->first_wire[i] = n->first_wire[i - 1];
    free(list);
    return good ? BRAID_OK : BRAID_MEMORY;
}

// node.widest: the largest number of neighbours of a peer on one side.
static braid_err count_neighbours(routing_net *n) {
    const plan_problem *p = &n->instance->problem;
    uint32_t *count = calloc((size_t)p->peers * 3, sizeof *count);
    if (count == NULL) return BRAID_MEMORY;
    for (uint32_t l = 0; l < p->links; l++) {
        count[p->link[l].from * 3]++;
        count[p->link[l].to * 3 + 1]++;
    }
    for (uint32_t i = 0; i < p->peers; i++)
        for (uint32_t w = n->first_wire[i]; w < n->first_wire[i + 1]; w++)
            count[i * 3 + 2] += same_stage(p, i, n->wire_to[w]);
    for (uint32_t i = 0; i < p->peers; i++) n->node[i].widest = 1;
    for (uint32_t i = 0; i < p->peers * 3; i++) {
        uint32_t *widest = &n->node[i / 3].widest;
        if (count[i] > *widest) *widest = count[i];
    }
    free(count);
    return BRAID_OK;
}

static router_config configure(const routing_net *n, uint32_t i) {
    const routing_settings *s = n->settings;
    router_config c = {
        .algorithm = s->algorithm,
        .objective = s->objective,
        .self = i + 1,
        .capacity = n->instance->problem.peer[i].capacity,
        .source_count = n->instance->sources,
        .max_neighbours = n->node[i].widest,
        .seed = rng_seed(rng_seed(n->instance->seed, 2), i),
        .delay = ROUTING_ROUND,
        .gather = s->delay != ROUTING_LOCKSTEP && s->gather ? ROUTING_ROUND / 4 : 0,
        .slack = s->slack,
        .hold = s->hold,
        .lazy = s->lazy,
        .plan_first = s->plan_first,
        .path_limit = s->path_limit,
        .relays = n->instance->problem.peers - n->instance->sources,
        .temperature = 1.7 * ROUTING_SCALE,  // GWTF, section VI
        .cooling = 0.95,
    };
    for (uint32_t k = 0; k < n->instance->sources && k < ROUTER_MAX_SOURCES; k++) c.source[k] = k + 1;
    return c;
}

// The memory of each router, in `bytes`; aligned so that no two share a cache line.
static braid_err measure_routers(routing_net *n, size_t *bytes) {
    for (uint32_t i = 0; i < n->peers; i++) {
        router_config c = configure(n, i);
        bytes[i] = router_bytes(&c);
        if (bytes[i] == 0) {
            routing_net_fail(n, BRAID_LIMIT,
                             "%s with capacity %u, %u neighbours a side and %u data peers is more than a router takes "
                             "(capacity %d, %d neighbours, %d data peers)",
                             n->instance->name[i], c.capacity, c.max_neighbours, c.source_count, ROUTER_MAX_UNITS,
                             ROUTER_MAX_NEIGHBOURS, ROUTER_MAX_SOURCES);
            return BRAID_LIMIT;
        }
        bytes[i] = (bytes[i] + ROUTING_BLOCK_GRAIN - 1) / ROUTING_BLOCK_GRAIN * ROUTING_BLOCK_GRAIN;
        n->router_bytes += bytes[i];
    }
    return BRAID_OK;
}

static braid_err open_routers(routing_net *n) {
    size_t *bytes = calloc(n->peers, sizeof *bytes);
    braid_err err = bytes == NULL || count_neighbours(n) ? BRAID_MEMORY : measure_routers(n, bytes);
    if (!err) n->routers = routing_memory(n->router_bytes);
    if (!err && n->routers == NULL) err = BRAID_MEMORY;
    char *memory = n->routers;
    for (uint32_t i = 0; !err && i < n->peers; i++) {
        router_config c = configure(n, i);
        n->node[i].router = router_init(memory, &c, 0);
        n->node[i].capacity = c.capacity;
        n->node[i].armed = INT64_MAX;
        n->node[i].ticked = -1;
        memory += bytes[i];
    }
    free(bytes);
    return err;
}

static void add(routing_net *n, uint32_t at, uint32_t neighbour, router_side side, int64_t cost) {
    if (n->node[at].away || n->node[neighbour].away) return;
    if (router_neighbour_add(n->node[at].router, n->now, neighbour + 1, side, cost)) return;
    routing_net_fail(n, BRAID_STATE, "%s refused its neighbour %s", n->instance->name[at],
                     n->instance->name[neighbour]);
}

// Introduces the neighbours of all links, or those of one peer.
static void join_neighbours(routing_net *n, uint32_t only) {
    const plan_problem *p = &n->instance->problem;
    for (uint32_t l = 0; l < p->links; l++) {
        uint32_t from = p->link[l].from, to = p->link[l].to;
        if (only != UINT32_MAX && from != only && to != only) continue;
        add(n, from, to, ROUTER_NEXT, p->link[l].cost);
        add(n, to, from, ROUTER_PREVIOUS, p->link[l].cost);
    }
    for (uint32_t from = 0; from < n->peers; from++)
        for (uint32_t w = n->first_wire[from]; w < n->first_wire[from + 1]; w++) {
            uint32_t to = n->wire_to[w];
            if (same_stage(p, from, to) && (only == UINT32_MAX || from == only || to == only))
                add(n, from, to, ROUTER_SAME, 0);
        }
}

void routing_net_arrive(routing_net *n, uint32_t peer) {
    router_config c = configure(n, peer);
    routing_node *node = &n->node[peer];
    node->router = router_init(node->router, &c, n->now);
    node->moves = 0;
    node->away = false;
    join_neighbours(n, peer);
    for (uint32_t w = n->first_wire[peer]; w < n->first_wire[peer + 1]; w++)
        if (!n->node[n->wire_to[w]].away) routing_collect(n, n->wire_to[w]);
    routing_collect(n, peer);
}

static braid_err open_looks(routing_net *n) {
    size_t cells = (size_t)n->instance->sources * n->instance->problem.links;
    int64_t **all[] = {&n->sent, &n->taken, &n->real, &n->arrived, &n->previous, &n->kept};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = calloc(cells, sizeof **all[i]);
        if (*all[i] == NULL) return BRAID_MEMORY;
    }
    const plan_problem *p = &n->instance->problem;
    n->first_link = calloc(p->peers + 1, sizeof *n->first_link);
    if (n->first_link == NULL) return BRAID_MEMORY;
    for (uint32_t l = 0; l < p->links; l++) n->first_link[p->link[l].from + 1]++;
    for (uint32_t i = 1; i <= p->peers; i++) n->first_link[i] += n->first_link[i - 1];
    return BRAID_OK;
}

braid_err routing_net_open(routing_net *n, const routing_instance *instance, const routing_settings *settings,
                           const routing_change *late, int64_t units, routing_result *out, braid_error *error) {
    *n = (routing_net){.instance = instance,
                       .settings = settings,
                       .out = out,
                       .error = error,
                       .units = units,
                       .touched = true,
                       .peers = instance->problem.peers};
    if (instance->sources > ROUTER_MAX_SOURCES) {
        return braid_fail(error, BRAID_LIMIT, "%u data peers; a router knows at most %d", instance->sources,
                          ROUTER_MAX_SOURCES);
    }
    n->node = routing_memory(n->peers * sizeof *n->node);
    if (n->node != NULL) memset(n->node, 0, n->peers * sizeof *n->node);
    braid_err err = n->node == NULL ? BRAID_MEMORY : BRAID_OK;
    if (!err) err = open_wires(n);
    if (!err) err = open_looks(n);
    if (!err) err = open_routers(n);
    for (uint32_t i = 0; !err && late != NULL && i < late->count; i++) n->node[late->peer[i]].away = true;
    if (!err) join_neighbours(n, UINT32_MAX);
    if (n->failed) return error->code;
    return err ? braid_fail(error, err, "no memory for a routing run of %u peers", n->peers) : BRAID_OK;
}

// Blocks and records never shrink, and the queue reports its largest size, so this is the peak.
void routing_net_account(routing_net *n) {
    const plan_problem *p = &n->instance->problem;
    size_t cells = (size_t)n->instance->sources * p->links, looks = 6 * sizeof(int64_t);
    size_t seen = 0;
    for (uint32_t i = 0; i < n->peers; i++) seen += n->node[i].seen_room * sizeof *n->node[i].seen;
    size_t peer = sizeof *n->node + sizeof *n->first_wire + sizeof *n->first_link + sizeof *p->peer + ROUTING_NAME;
    n->out->router_bytes = n->router_bytes;
    n->out->run_bytes = p->peers * peer + n->wires * (sizeof *n->wire + sizeof *n->wire_to + sizeof *n->fallen) +
                        p->links * sizeof *p->link + cells * looks + seen + n->blocks.bytes + sim_queue_bytes(&n->queue);
}

void routing_net_close(routing_net *n) {
    free(n->routers);
    for (uint32_t i = 0; n->node != NULL && i < n->peers; i++) free(n->node[i].seen);
    free(n->node);
    free(n->wire);
    free(n->wire_to);
    free(n->fallen);
    free(n->first_wire);
    free(n->first_link);
    free(n->sent);
    free(n->taken);
    free(n->real);
    free(n->arrived);
    free(n->kept);
    free(n->previous);
    free(n->units_of);
    sim_queue_close(&n->queue);
    routing_blocks_close(&n->blocks);
    *n = (routing_net){0};
}
