// A voter with a slow disk is elected all the same: both other voters grant at once.
#include "raft/raft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { KEPT = 4096 };
static const uint64_t SECOND = 1000000000;

static struct {
    message scratch;
    log_entry record[KEPT];
    uint64_t durable_ns[KEPT];
    uint32_t records, durable;
    uint64_t now, sync_ns, batch_end;
    bool pre_vote, asks;
    raft machine;
    log_entry entry[RAFT_WINDOW];
} w;

static message *compose(void *context, message_kind kind) {
    (void)context;
    memset(&w.scratch, 0, sizeof w.scratch);
    w.scratch.kind = (uint8_t)kind;
    return &w.scratch;
}

static void sent(void *context, const braid_id *to) {
    (void)context, (void)to;
    if (w.scratch.kind != MESSAGE_VOTE) return;
    w.asks = true;
    w.pre_vote = w.scratch.u.vote.pre_vote;
}

// Records that arrive while a batch is written go into the next batch.
static void store(void *context, const log_entry *record) {
    (void)context;
    assert_true(w.records < KEPT);
    uint64_t end = w.now >= w.batch_end ? w.now + w.sync_ns : w.batch_end + w.sync_ns;
    if (w.now >= w.batch_end) w.batch_end = end;
    w.durable_ns[w.records] = end;
    w.record[w.records++] = *record;
}

static double elected_after(uint64_t sync_ns, uint64_t others_ns) {
    static struct { uint64_t term, due; } late[KEPT];
    uint32_t first = 0, count = 0;
    uint64_t others_end = 0;
    const raft_host host = {NULL, compose, sent, store};
    const braid_id self = {.bytes = {1}};
    memset(&w, 0, sizeof w);
    w.now = SECOND;
    w.sync_ns = sync_ns;
    raft_init(&w.machine, &host, &self, 1, 7, w.entry, RAFT_WINDOW, w.now);
    log_entry base = {.kind = LOG_BASE, .term = 1, .u.base.voters.count = 3};
    for (uint8_t i = 0; i < 3; i++) base.u.base.voters.voter[i] = (log_voter){.id = {.bytes = {(uint8_t)(i + 1)}}, .store = i + 1u};
    assert_true(raft_restore(&w.machine, &base));
    for (uint64_t began = w.now; w.now < began + 600 * SECOND; w.now += SECOND / 100) {
        while (w.durable < w.records && w.durable_ns[w.durable] <= w.now) {
            if (w.durable_ns[w.durable] > w.batch_end - w.sync_ns) w.batch_end = w.durable_ns[w.durable];
            raft_stored(&w.machine, w.now, &w.record[w.durable++]);
        }
        if (w.now >= raft_deadline(&w.machine)) raft_tick(&w.machine, w.now);
        for (; first < count && late[first].due <= w.now; first++) {
            const braid_id from = {.bytes = {2}};
            message yes = {.kind = MESSAGE_VOTED, .u.voted = {.to = 1, .from = 2, .term = late[first].term, .granted = true}};
            if (late[first].term == late[count - 1].term) raft_receive(&w.machine, w.now, &from, &yes);  // no promise belongs to an older term
        }
        while (w.asks) {
            w.asks = false;
            if (!w.pre_vote && others_ns > 0) {
                assert_true(count < KEPT);
                late[count].term = w.machine.term;
                if (w.now < others_end) {
                    late[count].due = others_end + others_ns;
                } else {
                    uint64_t last = count > 0 ? late[count - 1].due : 0;  // the batch that was begun when the one before was written
                    others_end = last > w.now ? last : w.now + others_ns;
                    late[count].due = last > w.now ? last + others_ns : others_end;
                }
                count++;
                continue;
            }
            for (uint8_t v = 2; v <= 3; v++) {
                const braid_id from = {.bytes = {v}};
                message yes = {.kind = MESSAGE_VOTED, .u.voted = {.to = 1, .from = v, .term = w.machine.term + w.pre_vote, .pre_vote = w.pre_vote, .granted = true}};
                raft_receive(&w.machine, w.now, &from, &yes);
            }
        }
        if (raft_leads(&w.machine)) return (double)(w.now - began) / 1e9;
    }
    return -1;
}

// Rule V15. Given a slow disk, when the voter stands for election, then it waits for its own vote
// to be durable and is elected.
static void test_voter_with_a_slow_disk_is_elected(void **state) {
    (void)state;
    for (uint64_t ms = 0; ms <= 5000; ms += 500) {
        for (int others = 0; others < 2; others++) {
            double s = others ? elected_after(0, ms * SECOND / 1000) : elected_after(ms * SECOND / 1000, 0);
            print_message("%s sync of %.1f s: elected after %.1f s, %u records, term %llu\n", others ? "the others'" : "its own", (double)ms / 1e3, s, w.records, (unsigned long long)w.machine.term);
            assert_true(s >= 0 && s < (others ? 40 : 10));  // its own it knows of, the others' it has to guess
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_voter_with_a_slow_disk_is_elected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
