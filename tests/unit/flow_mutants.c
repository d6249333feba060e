// Planted bugs: a peer that says something wrong now and then. The checks that the routing tests rely on must notice each.
#include "flow_net.h"

#include "seed.h"

enum { SCHEDULES = 60, PATIENCE = 20000 };  // rounds; whoever talks on after that is not quiet

typedef struct mutant {
    const char *name;
    router_objective objective;
    router_kind kind;
    bool (*change)(router_message *m);  // false: swallow it
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
    m->taken_back &= 0xffff;
    return true;
}

static bool no_heaviest_link(router_message *m) {
    m->taken_back &= ~(uint32_t)0xffff;
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
    {"an ADVERT without the scale of loads", ROUTER_WORST, ROUTER_ADVERT, no_scale},
    {"an ADVERT without the heaviest load", ROUTER_WORST, ROUTER_ADVERT, no_heaviest_link},
    {"a LOCK that adds costs of loads wrongly", ROUTER_WORST, ROUTER_LOCK, no_load_gains},
};

// Every second message of the kind is wrong.
static bool tamper(net *n, router_message *m) {
    const mutant *mut = n->tamper_state;
    if (m->kind != mut->kind || n->tampered++ % 2 != 0) return true;
    return mut->change(m);
}

static bool caught(const mutant *mut, net_case c) {
    if (mut != NULL) c.config.objective = mut->objective;
    net *n = net_new(&c);
    n->tamper_state = (void *)(uintptr_t)mut;
    n->tamper = mut == NULL ? NULL : tamper;
    bool quiet = net_run(n, PATIENCE);
    net_result r = net_measure(n), best = net_optimum(n);
    bool dear = c.config.objective == ROUTER_SUM ? r.cost != best.cost : r.worst != net_lightest(n, r.worst).worst;
    bool bad = n->broken != NULL || !quiet || !r.whole || r.units != best.units || dear;
    net_free(n);
    return bad;
}

static net_case schedule(rng *r) {
    net_case c = net_random_case(r);
    if (c.delays == PARETO) c.delays = UNIFORM;
    return c;
}

static void test_each_planted_bug_is_caught(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        rng r = seeded_rng(mutants[i].name, 5);
        uint32_t count = 0;
        for (int j = 0; j < SCHEDULES && count < 3; j++) count += caught(&mutants[i], schedule(&r));
        if (count == 0) fail_msg("%s: nothing noticed it in %d schedules", mutants[i].name, SCHEDULES);
    }
}

static void test_without_a_bug_nothing_is_caught(void **state) {
    (void)state;
    rng r = seeded_rng("no bug", 5);
    for (int j = 0; j < 2 * SCHEDULES; j++) {
        net_case c = schedule(&r);
        c.config.objective = (router_objective)(j % ROUTER_OBJECTIVES);
        assert_false(caught(NULL, c));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_planted_bug_is_caught),
        cmocka_unit_test(test_without_a_bug_nothing_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
