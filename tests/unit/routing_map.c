// Maps of several data peers, one router at a time: which entries are forwarded, to which
// neighbours, when, and which versions win.
#include "base/err.h"
#include "routing/plan/mincost_planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum {
    HERE = 10,
    FIRST = 2,
    SECOND = 3,
    BEHIND = 4,
    BESIDE = 5,
    FAR = 6,
    LINK = 1000,
    DELAY = 1000,
    ENTRIES = 6144,
    LINKS = 8
};

// Entries as in a message.
typedef struct entry {
    router_peer peer;
    uint32_t version, capacity, cuts, links;
    uint32_t link[2 * LINKS];  // of the first entries
} entry;

typedef struct heard {
    uint32_t messages, entries;
    int64_t at;  // of the last one
    entry entry[ENTRIES];
} heard;

static _Alignas(16) char memory[1 << 20];

static router *new_router(router_peer self, uint32_t relays) {
    router_config c = {.algorithm = ROUTER_MINCOST,
                       .self = self,
                       .capacity = 3,
                       .source_count = 2,
                       .source = {1, 11},
                       .max_neighbours = 4,
                       .seed = 1,
                       .delay = DELAY,
                       .relays = relays};
    assert_true(router_bytes(&c) > 0 && router_bytes(&c) <= sizeof memory);
    router *r = router_init(memory, &c, 0);
    router_neighbour_add(r, 0, FIRST, ROUTER_PREVIOUS, LINK);
    router_neighbour_add(r, 0, SECOND, ROUTER_PREVIOUS, LINK);
    router_neighbour_add(r, 0, BEHIND, ROUTER_NEXT, LINK + 1);
    router_neighbour_add(r, 0, BESIDE, ROUTER_NEXT, LINK + 2);
    return r;
}

static void read_entries(heard *h, const router_message *m) {
    for (uint32_t at = 0; at < m->length;) {
        assert_true(at + 3 <= m->length && h->entries < ENTRIES);
        entry *e = &h->entry[h->entries++];
        const uint32_t *w = &m->u.word[at];
        *e = (entry){
            .peer = w[0], .version = w[1], .capacity = w[2] >> 16, .cuts = w[2] >> 7 & 0x1ff, .links = w[2] & 0x7f};
        assert_true(at + 3 + 2 * e->links <= m->length);
        memcpy(e->link, w + 3, (e->links < LINKS ? e->links : LINKS) * 2 * sizeof *w);
        at += 3 + 2 * e->links;
    }
}

// All MAP entries that `to` receives until then. Only previous neighbours may receive any.
static heard hears(router *r, int64_t from, int64_t until, router_peer to) {
    static router_message m;
    heard h = {.at = -1};
    for (int64_t now = from; now <= until; now = router_deadline(r) > now ? router_deadline(r) : now + 1) {
        router_tick(r, now);
        while (router_next(r, &m)) {
            if (m.kind != ROUTER_MAP) continue;
            assert_true(router_slot(r, ROUTER_PREVIOUS, m.to) >= 0);
            if (m.to != to) continue;
            h.messages++;
            h.at = now;
            read_entries(&h, &m);
        }
    }
    return h;
}

static const entry *find(const heard *h, router_peer peer) {
    const entry *found = NULL;
    for (uint32_t i = 0; i < h->entries; i++)
        if (h->entry[i].peer == peer) found = &h->entry[i];
    return found;
}

static void add(router_message *m, router_peer peer, uint32_t version, uint32_t capacity, router_peer next) {
    uint32_t *w = &m->u.word[m->length];
    w[0] = peer;
    w[1] = version;
    w[2] = capacity << 16 | (next != 0);
    w[3] = next;
    w[4] = LINK;
    m->length = (uint16_t)(m->length + (next != 0 ? 5 : 3));
}

static void say(router *r, int64_t now, router_peer from, router_peer peer, uint32_t version, uint32_t capacity,
                router_peer next) {
    router_message m = {.kind = ROUTER_MAP, .from = from, .to = HERE};
    add(&m, peer, version, capacity, next);
    router_receive(r, now, &m);
}

static const int64_t rounds = DELAY;

// Time at which all entries were sent.
static int64_t told_all(router *r) {
    say(r, 0, BEHIND, BEHIND, 5, 2, FAR);
    say(r, 0, BESIDE, BESIDE, 5, 2, FAR);
    say(r, 0, BESIDE, FAR, 5, 2, 1);
    hears(r, 0, 50 * rounds, FIRST);
    return 50 * rounds;
}

// Entries that arrive within three delays go on in one message, once, with the own entry; to both
// previous neighbours only.
static void test_entries_travel_upstream_once(void **state) {
    (void)state;
    for (router_peer to = FIRST; to <= SECOND; to++) {
        router *r = new_router(HERE, 4);
        router_tick(r, 0);
        say(r, rounds, BEHIND, BEHIND, 5, 2, FAR);
        say(r, 2 * rounds, BESIDE, BESIDE, 5, 2, FAR);
        say(r, 2 * rounds, BESIDE, FAR, 5, 7, 1);
        heard h = hears(r, 2 * rounds, 50 * rounds, to);
        assert_int_equal(h.messages, 1);
        assert_int_equal(h.entries, 4);
        assert_in_range(h.at, 3 * rounds, 4 * rounds);
        const entry *mine = find(&h, HERE), *far = find(&h, FAR);
        assert_true(mine != NULL && mine->capacity == 3 && mine->links == 2);
        assert_true(mine->link[0] == BEHIND && mine->link[1] == LINK + 1 && mine->link[2] == BESIDE &&
                    mine->link[3] == LINK + 2);
        assert_true(far != NULL && far->capacity == 7 && far->version == 5 && far->links == 1 && far->link[0] == 1 &&
                    far->link[1] == LINK);
        say(r, 51 * rounds, BEHIND, FAR, 5, 7, 1);  // over another path
        assert_int_equal(hears(r, 51 * rounds, 100 * rounds, to).messages, 0);
    }
}

// A next neighbour without an entry is waited for, but not forever.
static void test_missing_entry_of_next_neighbour_delays_sending(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    say(r, 0, BEHIND, BEHIND, 5, 2, FAR);
    heard h = hears(r, 0, 100 * rounds, FIRST);
    assert_int_equal(h.messages, 1);
    assert_int_equal(h.at, 20 * rounds);
}

static void test_only_newer_versions_are_stored(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    say(r, now, BEHIND, FAR, 4, 9, 1);
    assert_int_equal(hears(r, now, now + 30 * rounds, FIRST).entries, 0);
    say(r, now + 30 * rounds, BEHIND, FAR, 6, 9, 1);
    heard h = hears(r, now + 30 * rounds, now + 60 * rounds, FIRST);
    assert_true(h.entries == 1 && h.entry[0].peer == FAR && h.entry[0].capacity == 9);
    say(r, now + 60 * rounds, BEHIND, BEHIND, 2, 8, FAR);  // restarted with a clock that is behind
    h = hears(r, now + 60 * rounds, now + 90 * rounds, FIRST);
    assert_true(h.entries == 1 && h.entry[0].peer == BEHIND && h.entry[0].capacity == 8 && h.entry[0].version == 2);
}

// Entries about this router are ignored, and those of previous neighbours are not sent back to
// them.
static void test_no_peer_receives_its_own_entry(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    say(r, now, BEHIND, HERE, 1u << 30, 9, FAR);
    assert_int_equal(hears(r, now, now + 30 * rounds, FIRST).entries, 0);
    say(r, now + 30 * rounds, BEHIND, FIRST, 5, 9, FAR);
    assert_int_equal(hears(r, now + 30 * rounds, now + 60 * rounds, FIRST).entries, 0);
    say(r, now + 60 * rounds, BEHIND, FIRST, 6, 9, FAR);
    assert_int_equal(hears(r, now + 60 * rounds, now + 90 * rounds, SECOND).entries, 1);
}

// A changed cost waits 20 delays for others; a changed capacity waits 3.
static void test_changed_costs_are_sent_later(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    router_cost(r, now, BEHIND, ROUTER_NEXT, 7 * LINK);
    heard h = hears(r, now, now + 100 * rounds, FIRST);
    assert_true(h.messages == 1 && h.entries == 1 && h.entry[0].peer == HERE && h.entry[0].link[1] == 7 * LINK);
    assert_int_equal(h.at, now + 20 * rounds);
    uint32_t version = h.entry[0].version;
    now += 100 * rounds;
    router_capacity(r, now, 1);
    h = hears(r, now, now + 100 * rounds, FIRST);
    assert_true(h.messages == 1 && h.entry[0].capacity == 1 && h.entry[0].version > version);
    assert_int_equal(h.at, now + 3 * rounds);
}

// A lost next neighbour is reported, and counts as a cut only if it carried units.
static void test_lost_link_with_units_counts_as_cut(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    const router_message advert = {
        .kind = ROUTER_ADVERT, .from = BEHIND, .to = HERE, .source = 1, .units = 5, .cost = LINK};
    router_receive(r, now, &advert);
    const router_message flow = {
        .kind = ROUTER_FLOW, .from = FIRST, .to = HERE, .source = 1, .units = 1, .why = MINCOST_PUSHED};
    router_receive(r, now, &flow);
    hears(r, now, now + 10 * rounds, FIRST);
    router_neighbour_gone(r, now + 10 * rounds, BESIDE);
    heard h = hears(r, now + 10 * rounds, now + 40 * rounds, FIRST);
    assert_true(h.entries == 1 && h.entry[0].links == 1 && h.entry[0].cuts == 0);
    router_neighbour_gone(r, now + 40 * rounds, BEHIND);
    router_neighbour_add(r, now + 40 * rounds, BEHIND, ROUTER_NEXT, LINK + 1);
    h = hears(r, now + 40 * rounds, now + 80 * rounds, FIRST);
    assert_true(h.entries == 1 && h.entry[0].links == 1 && h.entry[0].cuts == 1);
}

static void test_new_neighbour_receives_all_entries(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    router_neighbour_gone(r, now, FIRST);
    router_neighbour_add(r, now, FIRST, ROUTER_PREVIOUS, LINK);
    heard h = hears(r, now, now + 30 * rounds, FIRST);
    assert_true(h.messages == 1 && h.entries == 4);
}

// The previous neighbours of a data peer are relays of the last stage. They receive its own entry
// only.
static void test_data_peer_sends_only_its_own_entry(void **state) {
    (void)state;
    router *r = new_router(1, 4);
    say(r, 0, BEHIND, BEHIND, 5, 2, FAR);
    say(r, 0, BESIDE, BESIDE, 5, 2, FAR);
    heard h = hears(r, 0, 50 * rounds, FIRST);
    assert_true(h.messages == 1 && h.entries == 1 && h.entry[0].peer == 1 && h.entry[0].links == 2);
}

static void test_run_too_large_sends_no_entries(void **state) {
    (void)state;
    router *r = new_router(HERE, MINCOST_MULTI_SOURCE_RELAYS + 1);
    say(r, 0, BEHIND, BEHIND, 5, 2, FAR);
    say(r, 0, BESIDE, BESIDE, 5, 2, FAR);
    assert_int_equal(hears(r, 0, 50 * rounds, FIRST).messages, 0);
}

static heard hears_of_carried_maps(router_peer first, router_peer second, router_peer to) {
    router *r = new_router(HERE, MINCOST_SMALL_RUN + 1);
    router_neighbour_gone(r, 0, FIRST);
    router_neighbour_gone(r, 0, SECOND);
    router_neighbour_add(r, 0, first, ROUTER_PREVIOUS, LINK);
    router_neighbour_add(r, 0, second, ROUTER_PREVIOUS, LINK);
    say(r, 0, BEHIND, BEHIND, 5, 2, FAR);
    say(r, 0, BESIDE, BESIDE, 5, 2, FAR);
    return hears(r, 0, 50 * rounds, to);
}

// With many relays one previous neighbour receives all entries and others the own one; data peers
// receive all.
static void test_large_run_sends_all_entries_to_one_neighbour(void **state) {
    (void)state;
    heard one = hears_of_carried_maps(FIRST, SECOND, FIRST), other = hears_of_carried_maps(FIRST, SECOND, SECOND);
    assert_int_equal(one.entries + other.entries, 3 + 1);
    assert_true(find(&one, HERE) != NULL && find(&other, HERE) != NULL);
    for (router_peer to = 1; to <= 11; to += 10) {
        heard h = hears_of_carried_maps(1, 11, to);
        assert_true(h.entries == 3 && find(&h, HERE) != NULL && find(&h, BEHIND) != NULL && find(&h, BESIDE) != NULL);
    }
}

enum { OTHERS = MINCOST_MULTI_SOURCE_RELAYS - 3, FIRST_OTHER = 100, EACH_NAMES = 16 };

// The only relay of a stage forwards all entries.
static void test_single_relay_of_a_stage_forwards_all_entries(void **state) {
    (void)state;
    static heard h;
    router *r = new_router(HERE, MINCOST_MULTI_SOURCE_RELAYS);
    router_neighbour_gone(r, 0, FIRST);
    router_neighbour_add(r, 0, 1, ROUTER_PREVIOUS, LINK);
    say(r, 0, BEHIND, BEHIND, 5, 2, FIRST_OTHER);
    say(r, 0, BESIDE, BESIDE, 5, 2, FIRST_OTHER);
    for (uint32_t i = 0; i < OTHERS; i++) {
        router_message m = {.kind = ROUTER_MAP, .from = BEHIND, .to = HERE, .length = 3 + 2 * EACH_NAMES};
        m.u.word[0] = FIRST_OTHER + i;
        m.u.word[1] = 5;
        m.u.word[2] = 2 << 16 | EACH_NAMES;
        for (uint32_t next = 0; next < EACH_NAMES; next++) {
            m.u.word[3 + 2 * next] = FIRST_OTHER + i + 1 + next;
            m.u.word[4 + 2 * next] = LINK;
        }
        router_receive(r, 0, &m);
    }
    h = hears(r, 0, 100 * rounds, 1);
    assert_int_equal(h.entries, OTHERS + 3);
}

// A peer that believes the run too large a little longer or sooner than others misses nothing in
// the end.
static void test_run_that_shrinks_sends_all_entries(void **state) {
    (void)state;
    router *r = new_router(HERE, MINCOST_MULTI_SOURCE_RELAYS + 1);
    say(r, 0, BEHIND, BEHIND, 5, 2, FAR);
    say(r, 0, BESIDE, BESIDE, 5, 2, FAR);
    for (int64_t now = 50 * rounds; now <= 250 * rounds; now += 200 * rounds) {
        assert_int_equal(hears(r, now - 50 * rounds, now, FIRST).messages, 0);
        router_relays(r, now, MINCOST_MULTI_SOURCE_RELAYS);
        heard h = hears(r, now, now + 50 * rounds, FIRST);
        assert_true(find(&h, HERE) != NULL && find(&h, BEHIND) != NULL && find(&h, BESIDE) != NULL);
        router_relays(r, now + 50 * rounds, MINCOST_MULTI_SOURCE_RELAYS + 1);
    }
}

// The rest of a message behind an invalid entry is ignored.
static void test_invalid_entry_ends_the_message(void **state) {
    (void)state;
    static const uint32_t bad[][5] = {{0, 6, 1 << 16 | 1, FAR, LINK},         // no peer
                                      {1u << 31, 6, 1 << 16 | 1, FAR, LINK},  // not a peer number
                                      {FAR, 6, 1 << 16 | 2, FAR, LINK},       // more links than words
                                      // above the maximum
                                      {FAR, 6, (ROUTER_MAX_UNITS + 1u) << 16 | 1, 1, LINK},
                                      {FAR, 6, 1 << 16 | 1, 0, LINK},  // a link to no peer
                                      {FAR, 6, 1 << 16 | 1, 1, (uint32_t)ROUTER_MAX_COST + 1}};
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        router *r = new_router(HERE, 4);
        int64_t now = told_all(r);
        router_message m = {.kind = ROUTER_MAP, .from = BEHIND, .to = HERE};
        add(&m, 20, 5, 2, 1);
        memcpy(&m.u.word[m.length], bad[i], sizeof bad[i]);
        m.length = (uint16_t)(m.length + 5);
        router_receive(r, now, &m);
        heard h = hears(r, now, now + 30 * rounds, FIRST);
        assert_true(h.entries == 1 && h.entry[0].peer == 20);
    }
}

// Invented peer numbers cannot be chosen to collide in the index.
static void test_invented_peers_do_not_collide_in_the_index(void **state) {
    (void)state;
    enum { MADE_UP = 2500, CHOSEN = 1 << 16 };
    router *r = new_router(1, 0);
    for (router_peer p = 1; p <= MADE_UP; p++) {
        router_message m = {.kind = ROUTER_MAP, .from = BEHIND, .to = 1, .length = 3, .u.word = {p * CHOSEN, 1, 0}};
        router_receive(r, 0, &m);
    }
    const mincost_map_index *x = &((const mincost_planner *)r)->map->index;
    uint32_t run = 0, longest = 0, taken = 0;
    for (uint32_t i = 0; i < x->table; i++) {
        run = x->place[i] == 0 ? 0 : run + 1;
        taken += x->place[i] != 0;
        longest = run > longest ? run : longest;
    }
    assert_int_equal(taken, MADE_UP);
    assert_in_range(longest, 1, 30);
}

// Invented entries stay within bounds, and reachable entries find room.
static void test_full_map_drops_unreachable_entries(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    for (uint32_t i = 0; i < 5000; i++) say(r, now, BEHIND, 1000 + i, 1, 1, 5000);
    hears(r, now, now + 200 * rounds, FIRST);
    say(r, now + 200 * rounds, BEHIND, BEHIND, 6, 2, 20);
    say(r, now + 200 * rounds, BEHIND, 20, 5, 2, 1);
    heard h = hears(r, now + 200 * rounds, now + 300 * rounds, FIRST);
    assert_true(find(&h, BEHIND) != NULL && find(&h, 20) != NULL);
    assert_in_range(h.messages, 1, 2);
}

// A data peer finds entries by an index after they move.
static void test_index_survives_pruning(void **state) {
    (void)state;
    router *r = new_router(1, 4);
    for (uint32_t i = 0; i < 10; i++) say(r, 0, BEHIND, 1000 + i, 1, 1, 5000);
    say(r, 0, BEHIND, BEHIND, 5, 2, 20);
    for (uint32_t i = 10; i < 5000; i++) say(r, 0, BEHIND, 1000 + i, 1, 1, 5000);
    say(r, 0, BEHIND, BEHIND, 6, 2, 20);
    const mincost_map *map = ((const mincost_planner *)r)->map;
    uint32_t found = 0;
    for (uint32_t at = 0; at < map->used; at += 4 + 2 * (map->word[at + 2] & 0x7f)) {
        if (map->word[at] != BEHIND) continue;
        found++;
        assert_int_equal(map->word[at + 1], 6);
    }
    assert_int_equal(found, 1);
}

// No room is kept for unreachable peers that name each other.
static void test_full_map_drops_entries_that_only_unreachable_peers_name(void **state) {
    (void)state;
    router *r = new_router(HERE, 4);
    int64_t now = told_all(r);
    for (uint32_t i = 0; i < 5000; i++) say(r, now, BEHIND, 1000 + i, 1, 1, 1000 + (i ^ 1));
    hears(r, now, now + 200 * rounds, FIRST);
    now += 200 * rounds;
    router_neighbour_add(r, now, 7, ROUTER_NEXT, LINK);
    router_neighbour_gone(r, now, FIRST);
    router_neighbour_add(r, now, FIRST, ROUTER_PREVIOUS, LINK);
    say(r, now, BEHIND, 20, 5, 2, 1);
    say(r, now, BEHIND, BEHIND, 6, 2, 20);
    say(r, now, BEHIND, 20, 6, 2, 1);
    heard h = hears(r, now, now + 100 * rounds, FIRST);
    const entry *mine = find(&h, HERE);
    assert_true(mine != NULL && mine->links == 3 && find(&h, BEHIND) != NULL && find(&h, 20) != NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_travel_upstream_once),
        cmocka_unit_test(test_missing_entry_of_next_neighbour_delays_sending),
        cmocka_unit_test(test_only_newer_versions_are_stored),
        cmocka_unit_test(test_no_peer_receives_its_own_entry),
        cmocka_unit_test(test_changed_costs_are_sent_later),
        cmocka_unit_test(test_lost_link_with_units_counts_as_cut),
        cmocka_unit_test(test_new_neighbour_receives_all_entries),
        cmocka_unit_test(test_data_peer_sends_only_its_own_entry),
        cmocka_unit_test(test_run_too_large_sends_no_entries),
        cmocka_unit_test(test_large_run_sends_all_entries_to_one_neighbour),
        cmocka_unit_test(test_single_relay_of_a_stage_forwards_all_entries),
        cmocka_unit_test(test_run_that_shrinks_sends_all_entries),
        cmocka_unit_test(test_invalid_entry_ends_the_message),
        cmocka_unit_test(test_invented_peers_do_not_collide_in_the_index),
        cmocka_unit_test(test_full_map_drops_unreachable_entries),
        cmocka_unit_test(test_index_survives_pruning),
        cmocka_unit_test(test_full_map_drops_entries_that_only_unreachable_peers_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
