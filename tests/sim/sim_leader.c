// The leader dies, is paused or is cut off: another voter leads, and the results are those of a run
// without faults. One death at every moment in which a leader decides, and random schedules.
#include "campaign_run.h"
#include "case_run.h"

enum { MOST_STEPS = 120 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;
static uint32_t deaths_seen;
static uint64_t without_ns, longest_ns;

static void run(const char *name, const sim_case *c, bool real, sim_report *report) {
    case_run(&bench, name, c, real, "", report);
    deaths_seen += report->stats.leader_deaths;
    without_ns += report->stats.leaderless_ns;
    if (report->stats.most_leaderless_ns > longest_ns) longest_ns = report->stats.most_leaderless_ns;
}

// ---- one death

static const case_death deaths[] = {
    {"with forwards under way", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_FORWARD, .skip = 2}},
    {"in its loss", {.moment = SIM_BEFORE_JOB, .kind = JOB_LOSS, .skip = 1}},
    {"with gradients under way", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_BACKWARD, .skip = 1}},
    {"between two COMMITs", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_COMMIT}},
    {"before its own weight gradient", {.moment = SIM_BEFORE_JOB, .kind = JOB_WEIGHT}},
    {"before the first SETTLED", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_SETTLED}},
    {"with all SETTLED but some", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_SETTLED, .skip = 3}},
    {"before any peer has CLOSE", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_APPEND, .skip = 5}},
    {"when one has CLOSE", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_APPEND, .skip = 5}},
    {"before it hears that one has it", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_APPENDED, .skip = 6}},
    {"before it tells that CLOSE holds", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_LOG}},
    {"before the first BEGIN", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_BEGIN_AGGREGATION}},
    {"between two BEGINs", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_BEGIN_AGGREGATION, .skip = 2}},
    {"reducing", {.moment = SIM_AFTER_JOB, .kind = JOB_REDUCE}},
    {"before the first REDUCED", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_REDUCED}},
    {"after some REDUCED", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_REDUCED, .skip = 3}},
    {"deciding", {.moment = SIM_BEFORE_JOB, .kind = JOB_DECIDE}},
    {"decided, not reported", {.moment = SIM_AFTER_JOB, .kind = JOB_DECIDE}},
    {"decided, and on its way into the log", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_DECIDE}},
    {"when others have applied FINAL", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_STATE, .skip = 3}},
    {"before the first STATE", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_STATE}},
    {"writing a checkpoint", {.moment = SIM_AFTER_JOB, .kind = JOB_SAVE}},
    {"with the checkpoint written", {.moment = SIM_AFTER_JOB, .kind = JOB_SAVE_END}},
};

enum { DEATHS = sizeof deaths / sizeof *deaths };

static void every_death(bool real, bool silent, bool returns) {
    for (uint32_t i = 0; i < DEATHS; i++) {
        sim_case c = sim_case_plain(90 + i, 3, 3, 6, 8, 3);
        c.data_deaths = c.leader_deaths = true;
        c.voters = i % 2 ? 3 : 5;
        c.checkpoint_every = 2;
        c.crashes = 1;
        c.crash[0] = deaths[i].crash;
        c.crash[0].leader = true;
        c.crash[0].machine = silent;
        c.crash[0].iteration = 1;
        c.crash[0].restart = c.crash[0].same_id = c.crash[0].keeps_store = returns;
        c.crash[0].restart_ns = SECOND / 5;
        sim_report report;
        run(deaths[i].name, &c, real, &report);
        if (report.stats.crashes != 1 || report.stats.leader_deaths != 1) fail_msg("%s: no death, or no new leader", deaths[i].name);
    }
}

static void print_times(const char *what) {
    print_message("%s: %u leaders died; the next one led after %.2f s on average, %.2f s at most\n", what, deaths_seen, (double)without_ns / 1e9 / (deaths_seen ? deaths_seen : 1), (double)longest_ns / 1e9);
    deaths_seen = 0;
    without_ns = longest_ns = 0;
}

// The only voter dies and restarts with its log: the others wait, and the run continues from that
// log.
static void test_sole_voter_restarts(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i++) {
        // a sole voter sends none
        if (deaths[i].crash.kind == MESSAGE_APPEND || deaths[i].crash.kind == MESSAGE_APPENDED) continue;
        sim_case c = sim_case_plain(90 + i, 3, 3, 6, 8, 3);
        c.data_deaths = c.leader_deaths = true;
        c.checkpoint_every = 2;
        c.crashes = 1;
        c.crash[0] = deaths[i].crash;
        c.crash[0].leader = true;
        c.crash[0].iteration = 1;
        c.crash[0].restart = c.crash[0].same_id = c.crash[0].keeps_store = true;
        c.crash[0].restart_ns = (1 + i % 3) * SECOND;
        sim_report report;
        run(deaths[i].name, &c, false, &report);
        if (report.stats.crashes != 1 || report.stats.leader_deaths != 1) fail_msg("%s: it did not die, or not come back", deaths[i].name);
    }
    print_times("a sole voter");
}

static void test_every_moment(void **state) {
    (void)state;
    every_death(false, false, false);
    // a refused connection is detected well before the silence timeout, unless there is one split
    // vote
    assert_true(longest_ns < 5 * SECOND / 2);
    print_times("links reset");
    every_death(true, false, false);
    print_times("links reset, real kernels");
}

static void test_every_moment_when_the_machine_dies(void **state) {
    (void)state;
    every_death(false, true, false);
    assert_true(longest_ns < 5 * SECOND);
    print_times("machine dies");
}

static void test_every_moment_with_a_restart_and_its_log(void **state) {
    (void)state;
    every_death(false, false, true);
    print_times("back with its store");
}

// ---- voters

// The only data peer leads and is paused. A relay leads, replaces it as a voter once, and hands
// leadership back when it returns.
static void test_paused_data_peer_is_replaced_as_voter_once(void **state) {
    (void)state;
    sim_case c = sim_case_plain(5, 2, 1, 5, 6, 30);
    c.data_deaths = c.leader_deaths = true;
    c.voters = 3;
    c.troubles = 1;
    c.trouble[0] = (sim_trouble){.kind = SIM_PAUSE_LEADER, .at_ns = 8 * SECOND, .for_ns = 30 * SECOND};
    sim_report report;
    run("a data peer is paused", &c, false, &report);
    print_message("%u changes of voters, %u of leaders\n", report.stats.voter_changes, report.stats.leaders);
    assert_in_range(report.stats.voter_changes, 5, 12);  // three voters; one removal; one return
    assert_in_range(report.stats.leaders, 2, 4);
}

// Schedules that once did not end. In each a quorum is alive at any time (sim/crash.c allows no
// other death), and a leaving peer counts until it has left.
static const sim_campaign once_stuck[] = {
    // the leader had left and was no member, so its messages about the end of the iteration were
    // ignored, and the last checkpoint was not written
    {.first = 157, .real = true, .flaps = true, .partitions = true},
    // a leader restarted at another address, and joiners received the old one for ever
    {.first = 20224, .private_data = true, .flaps = true, .partitions = true},
    // the same, when its old machine did not even refuse connections
    {.first = 103206, .real = true, .private_data = true, .flaps = true, .partitions = true},
    // resumed run with a dead first leader: a stage's last member was removed, as if the initial
    // state could be rebuilt without it
    {.first = 100308, .odd = true, .partitions = true},
    // all holders of a stage's state had been removed meanwhile, and requested it from each other
    {.first = 101629, .elastic = true, .odd = true, .flaps = true, .partitions = true},
    // a peer that restarted without its log became a voter with the identity of the lost log
    {.first = 107259, .real = true, .private_data = true, .partitions = true},
    // a silent data peer was taken for a possible new owner when its link broke, so the last one
    // was removed
    {.first = 107770, .real = true},
    // after CLOSE a gradient was sent as if before it; its refusal made a holder with a COMMIT look
    // lost
    {.first = 108080, .real = true, .elastic = true, .partitions = true},
    // after the last FINAL of an iteration its slots became free one by one, and skipped
    // microbatches were launched in them again
    {.first = 300852, .real = true, .data_deaths = true},
    // a leader with a long election timeout removed a voter, though it had received no message at
    // all for 5 s
    {.first = 400245, .private_data = true, .odd = true, .flaps = true, .partitions = true},
    // a relay led after the last FINAL, and the data peer that could write the checkpoint was no
    // voter any more
    {.first = 501916, .real = true, .elastic = true, .partitions = true},
    // a suspected peer received a request for the initial state at every step, ten thousand times
    // in twelve seconds
    {.first = 5002091, .flaps = true, .odd = true, .short_stores = true},
    // routers: a peer that had been cut off restored the flow in an epoch that the others had left
    {.first = 7021238, .real = true, .flaps = true, .partitions = true, .short_stores = true},
    // the checker took the older of two leaders for the newer one when that one had led before
    {.first = 8010772, .private_data = true, .partitions = true, .odd = true, .short_stores = true},
    // the harness read a state from disk that a relay had requested before it was moved to another
    // stage
    {.first = 8015140, .real = true, .elastic = true, .partitions = true, .data_deaths = true},
    // the leader died while it dismissed the others, and the harness waited for it
    {.first = 8037678, .real = true, .flaps = true, .short_stores = true},
    // a replaced owner, unaware of it, sent one more COMMIT, and the checker took that for a move
    {.first = 8040114, .odd = true, .data_deaths = true},
    // the timeout ended while slots were being returned to their owner: CLOSE skipped microbatches
    // that it had counted meanwhile
    {.first = 8410727, .real = true, .elastic = true, .partitions = true, .short_stores = true},
    // after the last FINAL one peer died and one was paused for 19 s; the third did not wait as
    // long and exited
    {.first = 8529558, .flaps = true, .odd = true},
    // one of three voters was to be removed while it was cut off; another died then, and the third
    // needed the first one's vote
    {.first = 8532382, .elastic = true, .flaps = true, .odd = true, .short_stores = true},
    // the harness killed two peers at once that the sole voter made voters before it could know of
    // their deaths
    {.first = 8718306, .flaps = true, .partitions = true, .odd = true},
    // a voter that was cut off was removed when another one died, and the leader was deposed before
    // it could withdraw that
    {.first = 8509870, .real = true, .private_data = true, .partitions = true, .short_stores = true},
    // a relay left when a snapshot replaced its log: it took itself for no member, and the others
    // waited for its answer to SURVEY
    {.first = 8924645, .carried = true, .stage_losses = true, .private_data = true, .partitions = true, .odd = true, .short_stores = true},
    // resumed run: the only holder of the initial state was paused and removed before a stage had
    // fetched the state
    {.first = 9222586, .carried = true, .odd = true, .short_stores = true},
    // the harness did not replace the last data peer, which was asked to leave while it was cut
    // off, and had been removed
    {.first = 9236159, .real = true, .flaps = true},
    // the checker forgot the state that a peer kept from its first removal when it was removed
    // again and had received nothing between
    {.first = 9223240, .real = true, .private_data = true, .partitions = true, .data_deaths = true},
    // the replacements of a lost stage knew one peer, which had left, and no user gave them another
    // contact
    {.first = 9266650, .stage_losses = true, .partitions = true, .odd = true},
    // the leader's heartbeats never arrived, so its dismissal was ignored, and the last FINAL had
    // not arrived either
    {.first = 9503449, .real = true, .partitions = true},
    // a new owner overestimated a microbatch's progress, because a repair had moved the gradient
    // ahead of the activation: it kept the owner's only slot, which another microbatch needed
    {.first = 9539168, .partitions = true, .odd = true, .short_stores = true},
    // after a cut a peer heard of a new leader in heartbeats only, knew none of the voters, and
    // requested no log
    {.first = 10020019, .flaps = true, .partitions = true, .odd = true},
    // a completed microbatch waited behind a slot, and RESUME had restarted it, which evicts
    // nothing
    {.first = 9939283, .carried = true, .flaps = true, .partitions = true, .odd = true, .short_stores = true},
    // the harness named no new contact to the only relay for a stage when its contact died
    {.first = 9989112, .elastic = true, .odd = true},
    // a peer silent for the removal timeout was not suspected yet, and became a voter and lost its
    // vote at every round trip
    {.first = 10938886, .real = true, .elastic = true, .carried = true, .partitions = true, .short_stores = true},
    // the harness mistook the next incarnation of a dead relay, with a dead contact, for that relay
    {.first = 11424780, .partitions = true, .odd = true},
    // in the harness a dial that began during a cut took three times as long as the cut, and voters
    // exited meanwhile
    {.first = 11443837, .real = true, .flaps = true, .short_stores = true},
    // a relay led, and the voting data peers had all left: a remaining one was not made a voter
    {.first = 11474135, .real = true},
    // a paused leader was removed, heard of the new leader while it still took itself for the
    // leader, and requested nothing later
    {.first = 11747847, .real = true, .stage_losses = true, .private_data = true, .flaps = true},
    // all voters restarted at once with more entries in their logs than there is room for: the
    // elected one had none for its first entry
    {.first = 11831007, .stage_losses = true, .odd = true},
    // the harness restarted relays that had left too early, and their only contact left, too
    {.first = 13672156, .real = true, .elastic = true, .stage_losses = true, .flaps = true},
    // a peer that had read of its removal received an older snapshot, and took itself for a member
    // again
    {.first = 13238452, .real = true, .flaps = true, .partitions = true, .short_stores = true},
    // a paused leader was replaced, and received the last FINAL, END and the shutdown message while
    // it still took itself for the leader: it waited for ever
    {.first = 17174697, .real = true, .restarting = true, .stage_deaths = true, .flaps = true, .partitions = true, .short_stores = true},
    // a peer knew only its leader, and that leader's next incarnation waited for an admission by
    // this peer; so it followed no other leader
    {.first = 17208289, .carried = true, .slow_stores = true, .flaps = true, .odd = true, .short_stores = true},
    // two voters were cut off while all others were replaced; the leader died, and the two followed
    // none of the rest
    {.first = 1104082, .carried = true, .flaps = true, .odd = true, .short_stores = true},
    // private data: the owner restarted before its older incarnation was removed, and did not learn
    // of the leader
    {.first = 138, .private_data = true},
    {.first = 5079},  // a voter left, another one died, and the third had no quorum
    // one voter was silent; a fourth was added before its removal, and died: two of four
    {.first = 5281},
    {.first = 5217},  // two died and a third was cut off; its removal left two of four
    {.first = 7002},  // a leaving voter was removed when another one had died
    {.first = 5542},  // the same as 5281, with a voter known to be dead
    // a voter restarted at another address without a leader, and found only relays, which did not
    // answer with addresses
    {.first = 7077},
    // a relay was cut off until all voters that it knew were gone, and ignored unknown peers
    {.first = 5517},
    // the last data peer was asked to leave: it led, handed leadership to a relay, which handed it
    // back, and so on
    {.first = 7344},
    {.first = 7435},  // the same, and a pause cost it its vote for good
    // a snapshot arrived after an older one, and peers removed between the two stayed members
    {.first = 7285},
    {.first = 5318},  // one was cut off and removed when another one's link had been reset
    // the last leader had joined while others were cut off, which knew none of the later voters:
    // they ignored its report of the end
    {.first = 3202417, .real = true, .flaps = true, .partitions = true, .short_stores = true},
    // a relay led at the end, and the data peer that could write the last checkpoint had been asked
    // to leave
    {.first = 7342},
};

static void test_once_stuck_schedules_end(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof once_stuck / sizeof *once_stuck; i++) {
        sim_campaign campaign = once_stuck[i];
        campaign.leader_deaths = !campaign.data_deaths;
        campaign_ends(campaign);
    }
}

// ---- random schedules

static void test_random(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {60, 40, 20};
    sim_campaign_result r[CAMPAIGN_KINDS];
    campaign_kinds_pass((sim_campaign){.leader_deaths = true}, count, MOST_STEPS, r);
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) assert_true(r[kind].leader_deaths > count[kind] / 3);
}

// Logs are compacted every few entries: a restarted peer reads a snapshot, and a slow one receives
// it.
static void test_short_stores(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {60, 20, 20};
    sim_campaign_result r[CAMPAIGN_KINDS], all = {0};
    campaign_kinds_pass((sim_campaign){.leader_deaths = true, .short_stores = true}, count, MOST_STEPS, r);
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) sim_campaign_add(&all, &r[kind]);
    print_message("%llu logs compacted, %llu read again\n", (unsigned long long)all.shortened, (unsigned long long)all.recalled);
    assert_true(all.shortened > all.runs && all.recalled > all.runs / 12);
}

// The size of a durable log does not depend on the number of iterations.
static void test_durable_log_has_a_constant_size(void **state) {
    (void)state;
    uint32_t longest[2];
    for (uint32_t i = 0; i < 2; i++) {
        sim_case c = sim_case_plain(9, 2, 3, 2, 4, i == 0 ? 20 : 80);
        c.leader_deaths = c.data_deaths = true;
        c.voters = 3;
        c.store_entries = 16;
        sim_report report;
        run("a long run", &c, false, &report);
        longest[i] = report.stats.longest_store;
    }
    print_message("a store held up to %u and %u entries behind its state\n", longest[0], longest[1]);
    assert_in_range(longest[0], 16, 32);
    assert_int_equal(longest[0], longest[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_moment), cmocka_unit_test(test_every_moment_when_the_machine_dies), cmocka_unit_test(test_every_moment_with_a_restart_and_its_log), cmocka_unit_test(test_sole_voter_restarts),
        cmocka_unit_test(test_paused_data_peer_is_replaced_as_voter_once), cmocka_unit_test(test_once_stuck_schedules_end),
        cmocka_unit_test(test_short_stores), cmocka_unit_test(test_durable_log_has_a_constant_size), cmocka_unit_test(test_random),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
