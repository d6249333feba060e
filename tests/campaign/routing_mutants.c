// Mutations: a peer that sends wrong messages now and then. The checks that the routing tests rely
// on must detect each.
#include "routing_net.h"

#include "routing/plan/multi_source.h"
#include "campaign_budget.h"

static _Alignas(16) char memory[1 << 20];  // of the planner

// LONGEST is in rounds; a network that is active beyond it is not quiet
enum { SCHEDULES = 400, GOOD = 30, LONGEST = 20000 };

typedef struct mutant {
    const char *name;
    router_objective objective;
    router_kind kind;
    bool (*change)(router_message *m);  // false: drops the message
} mutant;

static bool one_more_unit(router_message *m) {
    m->units++;
    return true;
}

static bool swallow(router_message *m) {
    (void)m;
    return false;
}

static bool forget_hand_backs(router_message *m) {
    m->taken_back = 0;
    return true;
}

static bool hand_back_twice(router_message *m) {
    m->units *= 2;
    return true;
}

static bool no_cycle_gains(router_message *m) {
    m->cost += 60 * NET_COST;
    return true;
}

static bool no_load_gains(router_message *m) {
    m->cost += (int64_t)1 << 40;
    return true;
}

static bool forget_the_token(router_message *m) {
    if (m->token.origin != 0) m->token.serial++;
    return true;
}

static bool cheap_to_everywhere(router_message *m) {
    if (m->length > 0) m->cost -= 10 * NET_COST;
    return true;
}

static bool no_label(router_message *m) {
    m->length = 0;
    m->cost = 0;
    return true;
}

static bool no_scale(router_message *m) {
    m->scale &= 0xffff;
    return true;
}

static bool no_heaviest_link(router_message *m) {
    m->scale &= ~(uint32_t)0xffff;
    return true;
}

// The following concern several data peers and paths planned on a map of the run.

static bool one_unit_too_many_on_its_way(router_message *m) {
    m->units++;
    m->on_path++;
    return true;
}

static bool no_rest_of_the_way(router_message *m) {
    m->length = 0;
    return true;
}

enum { MAP_SIZES = 2, MAP_HEAD = 3 };  // words of an entry (src/routing/plan/mincost_map.h)

// Changes all entries of a MAP.
static void for_each_entry(router_message *m, void (*change)(uint32_t *entry, uint32_t links)) {
    for (uint32_t at = 0; at + MAP_HEAD <= m->length;) {
        uint32_t links = m->u.word[at + MAP_SIZES] & 0x7f;
        change(&m->u.word[at], links);
        at += MAP_HEAD + 2 * links;
    }
}

static void say_no_capacity(uint32_t *entry, uint32_t links) {
    (void)links;
    entry[MAP_SIZES] &= 0xffff;
}

static bool no_capacities(router_message *m) {
    for_each_entry(m, say_no_capacity);
    return true;
}

static void turn_costs_over(uint32_t *entry, uint32_t links) {
    for (uint32_t i = 0; i < links; i++) entry[MAP_HEAD + 2 * i + 1] = 100 * NET_COST - entry[MAP_HEAD + 2 * i + 1];
}

static bool dear_links_are_cheap(router_message *m) {
    for_each_entry(m, turn_costs_over);
    return true;
}

static const mutant mutants[] = {
    {"a FLOW that counts one unit too many", ROUTER_SUM, ROUTER_FLOW, one_more_unit},
    {"a FLOW that is never sent", ROUTER_SUM, ROUTER_FLOW, swallow},
    {"a FLOW that forgets which hand-backs are done", ROUTER_SUM, ROUTER_FLOW, forget_hand_backs},
    {"a FLOW that confirms another token's removal", ROUTER_SUM, ROUTER_FLOW, forget_the_token},
    {"a DENY that is never sent", ROUTER_SUM, ROUTER_DENY, swallow},
    {"a DENY that is counted twice", ROUTER_SUM, ROUTER_DENY, hand_back_twice},
    {"a LOCK that adds costs wrongly", ROUTER_SUM, ROUTER_LOCK, no_cycle_gains},
    {"a COMMIT that is never sent", ROUTER_SUM, ROUTER_COMMIT, swallow},
    {"a COMMIT with a wrong count", ROUTER_SUM, ROUTER_COMMIT, one_more_unit},
    {"a LABEL that is too cheap", ROUTER_SUM, ROUTER_LABEL, cheap_to_everywhere},
    {"a LABEL without its path", ROUTER_SUM, ROUTER_LABEL, no_label},
    {"an ADVERT without the scale of loads", ROUTER_BOTTLENECK, ROUTER_ADVERT, no_scale},
    {"an ADVERT without the heaviest load", ROUTER_BOTTLENECK, ROUTER_ADVERT, no_heaviest_link},
    {"a LOCK that adds costs of loads wrongly", ROUTER_BOTTLENECK, ROUTER_LOCK, no_load_gains},
    {"a WAY that is never sent", ROUTER_SUM, ROUTER_WAY, swallow},
    {"a WAY with one unit too many", ROUTER_SUM, ROUTER_WAY, one_unit_too_many_on_its_way},
    {"a WAY that forgets where to go on", ROUTER_SUM, ROUTER_WAY, no_rest_of_the_way},
    {"a MAP that is never sent", ROUTER_SUM, ROUTER_MAP, swallow},
    {"a MAP on which relays carry nothing", ROUTER_SUM, ROUTER_MAP, no_capacities},
    {"a MAP with wrong costs", ROUTER_SUM, ROUTER_MAP, dear_links_are_cheap},
};

// Changes every second message of the kind.
static bool tamper(net *n, router_message *m) {
    const mutant *mut = n->tamper_state;
    if (m->kind != mut->kind || n->tampered++ % 2 != 0) return true;
    return mut->change(m);
}

// Cost of the paths planned on the true map, which a staged plan makes active; -1: none.
static int64_t planned_cost(const net *n) {
    multi_source *w = multi_source_init(memory, ROUTER_SUM);
    for (router_peer p = 1; p <= n->peers; p++) {
        BRAID_ASSERT(multi_source_add_peer(w, p, n->capacity[p], 0, n->stage[p] == 0));
        for (router_peer q = 1; q <= n->peers; q++)
            if (n->cost[p][q] >= 0) BRAID_ASSERT(multi_source_add_link(w, q, n->cost[p][q]));
    }
    multi_source_arrange(w);
    return multi_source_search(w) ? multi_source_value(w) : -1;
}

static bool is_dear(net *n, const net_result *r, int64_t optimum) {
    if (n->c.sources > 1) return r->cost > planned_cost(n);
    return n->c.config.objective == ROUTER_SUM ? r->cost != optimum : r->worst != net_lightest(n, r->worst).worst;
}

static bool caught(const mutant *mut, net_case c) {
    if (mut != NULL) c.config.objective = mut->objective;
    net *n = net_new(&c);
    n->tamper_state = (void *)(uintptr_t)mut;
    n->tamper = mut == NULL ? NULL : tamper;
    bool quiet = net_run(n, LONGEST);
    net_result r = net_measure(n), best = net_optimum(n);
    bool bad = n->broken != NULL || !quiet || !r.whole || r.units != best.units || is_dear(n, &r, best.cost);
    net_free(n);
    return bad;
}

static net_case schedule(rng *r) {
    net_case c = net_random_case(r);
    if (c.delays == PARETO) c.delays = UNIFORM;
    return c;
}

// An instance with choices, so that the planned flow is cheaper than one without a plan.
static net_case schedule_of_several(rng *r) {
    net_case c = schedule(r);
    c.sources = 2 + (uint32_t)rng_below(r, 2);
    c.relays += 2 * c.stages;
    c.equal = true;
    return c;
}

static bool is_of_several(const mutant *mut) { return mut->kind == ROUTER_WAY || mut->kind == ROUTER_MAP; }

static void test_each_mutation_is_detected(void **state) {
    (void)state;
    assert_in_range(multi_source_bytes(), 1, sizeof memory);
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        rng r = seeded_rng(mutants[i].name, 5);
        uint32_t count = 0;
        for (int j = 0; j < SCHEDULES && count < 1; j++)
            count += caught(&mutants[i], is_of_several(&mutants[i]) ? schedule_of_several(&r) : schedule(&r));
        if (count == 0) fail_msg("%s: nothing noticed it in %d schedules", mutants[i].name, SCHEDULES);
    }
}

static void test_no_detection_without_a_mutation(void **state) {
    (void)state;
    assert_in_range(multi_source_bytes(), 1, sizeof memory);
    campaign one = campaign_begin("one data peer, no mutation", 5, 0.5, 2 * GOOD);
    for (uint32_t j = 0; campaign_goes_on(&one); j++) {
        net_case c = schedule(&one.random);
        c.config.objective = (router_objective)(j % ROUTER_OBJECTIVES);
        assert_false(caught(NULL, c));
    }
    campaign several = campaign_begin("several data peers, no mutation", 6, 0.5, GOOD);
    while (campaign_goes_on(&several)) assert_false(caught(NULL, schedule_of_several(&several.random)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_mutation_is_detected),
        cmocka_unit_test(test_no_detection_without_a_mutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
