// The network of a scenario: links, overrides for certain pairs, and partitions.
#include "sim/scenario_read.h"

#include "sim/places.h"

#include <stdio.h>

static const double MAX_LATENCY_MS = 60000, MIN_MBPS = 0.001, MAX_MBPS = 1000000, MAX_TIME_S = 31536000;
// Latency between two peers of one machine, which need no line.
static const uint64_t INSIDE_MACHINE_NS = 50000;
static const double MAX_RESETS = 3600;

typedef struct links_map {
    const yaml_node *pairs, *partitions;
} links_map;

static braid_err read_map(scenario_reader *r, const yaml_node *node, links_map *m) {
    scenario *s = r->s;
    const scenario_key keys[] = {
        {"latency_ms", KEY_MS, &s->link.latency_ns, 0, MAX_LATENCY_MS},
        {"jitter_ms", KEY_MS, &s->link.jitter_ns, 0, MAX_LATENCY_MS},
        {"mbps", KEY_MBPS, &s->link.bps, MIN_MBPS, MAX_MBPS},
        {"up_mbps", KEY_MBPS, &r->up_bps, MIN_MBPS, MAX_MBPS},
        {"down_mbps", KEY_MBPS, &r->down_bps, MIN_MBPS, MAX_MBPS},
        {"line_ms", KEY_MS, &r->line_ns, 0, MAX_LATENCY_MS},
        {"resets_per_hour", KEY_SHARE, &s->resets, 0, MAX_RESETS},
        {"pairs", KEY_NODE, &m->pairs, 0, 0},
        {"partitions", KEY_NODE, &m->partitions, 0, 0},
    };
    return scenario_read_keys(r, node, "links", keys, sizeof keys / sizeof *keys);
}

braid_err scenario_read_link_defaults(scenario_reader *r, const yaml_node *node) {
    links_map m = {0};
    r->s->link = (scenario_link){.latency_ns = 20000000, .jitter_ns = 2000000};
    r->up_bps = r->down_bps = 100000000;
    r->line_ns = 0;
    return node != NULL ? read_map(r, node, &m) : BRAID_OK;
}

static bool is_empty_set(const scenario_set *set) {
    uint64_t any = 0;
    for (uint32_t i = 0; i < SCENARIO_SET_WORDS; i++) any |= set->word[i];
    return any == 0;
}

// The single peer that a node names. UINT32_MAX: several peers, or a group, machine or place, which
// may hold more than one.
static uint32_t single_peer(const scenario_reader *r, const yaml_node *node) {
    const yaml_node *name = node->kind == YAML_LIST && node->children == 1 ? node->first : node;
    const char *near = NULL;
    return name->kind == YAML_SCALAR ? scenario_find_peer(r->s, name->text, &near) : UINT32_MAX;
}

static braid_err refuse_itself(const scenario_reader *r, const yaml_node *from, const yaml_node *to, const char *name) {
    uint32_t peer = single_peer(r, to);
    if (peer == UINT32_MAX || peer != single_peer(r, from)) return BRAID_OK;
    return yaml_fail(r->file, to, r->error, "%s: both ends are '%s', and no link goes from a peer to itself: name another one",
                     name, r->s->peer[peer].name);
}

// `between: [A, B]`, or `from:` and `to:`.
typedef struct ends {
    const yaml_node *between, *from, *to;
} ends;

static braid_err read_ends(const scenario_reader *r, const yaml_node *item, const char *where, const ends *e,
                           scenario_set *from, scenario_set *to) {
    char name[SCENARIO_MAX_WHERE + 16];
    const yaml_node *a = e->from, *b = e->to;
    if ((e->between != NULL) == (e->from != NULL || e->to != NULL))
        return yaml_fail(r->file, item, r->error,
                         "%s: write either 'between: [A, B]' for both ways, or 'from: A' and 'to: B'", where);
    if (e->between != NULL) {
        if (e->between->kind != YAML_LIST || e->between->children != 2)
            return yaml_fail(r->file, e->between, r->error, "%s.between must name two, like [anna, London]", where);
        a = e->between->first;
        b = a->next;
    }
    if (a == NULL) return yaml_fail(r->file, item, r->error, "%s.from is missing: say where the link begins", where);
    if (b == NULL) return yaml_fail(r->file, item, r->error, "%s.to is missing: say where the link ends", where);
    snprintf(name, sizeof name, "%s.%s", where, e->between != NULL ? "between" : "from");
    braid_err code = scenario_read_who(r, a, name, from);
    snprintf(name, sizeof name, "%s.%s", where, e->between != NULL ? "between" : "to");
    if (code == BRAID_OK) code = scenario_read_who(r, b, name, to);
    return code == BRAID_OK ? refuse_itself(r, a, b, name) : code;
}

static braid_err read_pair(scenario_reader *r, const yaml_node *item, uint32_t index) {
    char where[SCENARIO_MAX_WHERE];
    scenario *s = r->s;
    scenario_override *o = &s->override[s->overrides];
    ends e = {0};
    const scenario_key keys[] = {
        {"between", KEY_NODE, &e.between, 0, 0},
        {"from", KEY_NODE, &e.from, 0, 0},
        {"to", KEY_NODE, &e.to, 0, 0},
        {"latency_ms", KEY_MS, &o->link.latency_ns, 0, MAX_LATENCY_MS},
        {"jitter_ms", KEY_MS, &o->link.jitter_ns, 0, MAX_LATENCY_MS},
        {"mbps", KEY_MBPS, &o->link.bps, MIN_MBPS, MAX_MBPS},
    };
    scenario_where(item, "links.pairs", index, where);
    braid_err code = scenario_read_keys(r, item, where, keys, sizeof keys / sizeof *keys);
    if (code == BRAID_OK) code = read_ends(r, item, where, &e, &o->from, &o->to);
    if (code != BRAID_OK) return code;
    o->one_way = e.between == NULL;
    o->has_latency = yaml_find(item, "latency_ms") != NULL;
    o->has_jitter = yaml_find(item, "jitter_ms") != NULL;
    o->has_bps = yaml_find(item, "mbps") != NULL;
    if (!o->has_latency && !o->has_jitter && !o->has_bps)
        return yaml_fail(r->file, item, r->error,
                         "%s says nothing about the link: add 'latency_ms', 'jitter_ms' or 'mbps'", where);
    s->overrides++;
    return BRAID_OK;
}

// The peers outside `set`.
static scenario_set others(const scenario *s, const scenario_set *set) {
    scenario_set out = {0};
    for (uint32_t i = 0; i < s->peers; i++)
        if (!scenario_set_has(set, i)) scenario_set_add(&out, i);
    return out;
}

static braid_err read_partition(scenario_reader *r, const yaml_node *item, uint32_t index) {
    char where[SCENARIO_MAX_WHERE], name[SCENARIO_MAX_WHERE + 8];
    scenario *s = r->s;
    scenario_partition *p = &s->partition[s->partitions];
    const yaml_node *from = NULL, *to = NULL;
    const scenario_key keys[] = {
        {"from", KEY_NODE, &from, 0, 0},
        {"to", KEY_NODE, &to, 0, 0},
        {"one_way", KEY_SWITCH, &p->one_way, 0, 0},
        {"start_s", KEY_SECONDS, &p->start_ns, 0, MAX_TIME_S},
        {"stop_s", KEY_SECONDS, &p->stop_ns, 0, MAX_TIME_S},
    };
    *p = (scenario_partition){.stop_ns = UINT64_MAX};
    scenario_where(item, "links.partitions", index, where);
    braid_err code = scenario_read_keys(r, item, where, keys, sizeof keys / sizeof *keys);
    if (code != BRAID_OK) return code;
    if (from == NULL) return yaml_fail(r->file, item, r->error, "%s.from is missing: name the peers that are cut off", where);
    snprintf(name, sizeof name, "%s.from", where);
    code = scenario_read_who(r, from, name, &p->from);
    snprintf(name, sizeof name, "%s.to", where);
    if (code == BRAID_OK && to != NULL) code = scenario_read_who(r, to, name, &p->to);
    if (code == BRAID_OK && to != NULL) code = refuse_itself(r, from, to, name);
    if (code != BRAID_OK) return code;
    if (to == NULL) p->to = others(s, &p->from);
    if (is_empty_set(&p->to))
        return yaml_fail(r->file, from, r->error,
                         "%s.from names all peers, so that none is cut off: leave some out", where);
    if (p->stop_ns <= p->start_ns)
        return yaml_fail(r->file, yaml_find(item, "stop_s"), r->error, "%s.stop_s must be later than start_s", where);
    s->partitions++;
    return BRAID_OK;
}

braid_err scenario_read_links(scenario_reader *r, const yaml_node *node) {
    links_map m = {0};
    if (node == NULL) return BRAID_OK;
    braid_err code = read_map(r, node, &m);
    if (code == BRAID_OK && m.pairs != NULL)
        code = scenario_read_list(r, m.pairs, "links.pairs", SCENARIO_MAX_OVERRIDES, read_pair);
    if (code == BRAID_OK && m.partitions != NULL)
        code = scenario_read_list(r, m.partitions, "links.partitions", SCENARIO_MAX_PARTITIONS, read_partition);
    return code;
}

// ---- the link of a pair

static bool covers(const scenario_set *from, const scenario_set *to, bool one_way, uint32_t a, uint32_t b) {
    return (scenario_set_has(from, a) && scenario_set_has(to, b)) ||
           (!one_way && scenario_set_has(from, b) && scenario_set_has(to, a));
}

void scenario_link_of(const scenario *s, uint32_t from, uint32_t to, scenario_link *out) {
    uint32_t a = s->peer[from].machine, b = s->peer[to].machine;
    const scenario_machine *here = &s->machine[a], *there = &s->machine[b];
    *out = s->link;
    if (a == b) {
        *out = (scenario_link){.latency_ns = INSIDE_MACHINE_NS};
    } else if (here->place != SCENARIO_NOWHERE && there->place != SCENARIO_NOWHERE) {
        out->latency_ns = (uint64_t)place_latency_ns(here->place, there->place);
        out->bps = (uint64_t)place_bandwidth_bps(here->place, there->place);
    }
    if (a != b) out->latency_ns += here->latency_ns + there->latency_ns;
    for (uint32_t i = 0; i < s->overrides; i++) {
        const scenario_override *o = &s->override[i];
        if (!covers(&o->from, &o->to, o->one_way, from, to)) continue;
        if (o->has_latency) out->latency_ns = o->link.latency_ns;
        if (o->has_jitter) out->jitter_ns = o->link.jitter_ns;
        if (o->has_bps) out->bps = o->link.bps;
    }
}

uint64_t scenario_cut_since(const scenario *s, uint32_t from, uint32_t to, uint64_t now_ns) {
    uint64_t since = UINT64_MAX;
    for (uint32_t i = 0; i < s->partitions; i++) {
        const scenario_partition *p = &s->partition[i];
        bool lasts = now_ns >= p->start_ns && now_ns < p->stop_ns && p->start_ns < since;
        if (lasts && covers(&p->from, &p->to, p->one_way, from, to)) since = p->start_ns;
    }
    return since;
}

bool scenario_cut(const scenario *s, uint32_t from, uint32_t to, uint64_t now_ns) {
    return scenario_cut_since(s, from, to, now_ns) != UINT64_MAX;
}
