// The leader dies, stands still or is cut off: another voter leads, and what comes out is what would have come out anyway. One
// death at every moment in which a leader decides, random schedules.
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
    {"before anybody has CLOSE", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_APPEND, .skip = 5}},
    {"when one has CLOSE", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_APPEND, .skip = 5}},
    {"before it hears that one has it", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_APPENDED, .skip = 6}},
    {"before it tells that CLOSE holds", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_LOG}},
    {"before the first BEGIN", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_BEGIN_AGGREGATION}},
    {"between two BEGINs", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_BEGIN_AGGREGATION, .skip = 2}},
    {"reducing", {.moment = SIM_AFTER_JOB, .kind = JOB_REDUCE}},
    {"before the first REDUCED", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_REDUCED}},
    {"after some REDUCED", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_REDUCED, .skip = 3}},
    {"deciding", {.moment = SIM_BEFORE_JOB, .kind = JOB_DECIDE}},
    {"decided, and nobody knows", {.moment = SIM_AFTER_JOB, .kind = JOB_DECIDE}},
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
        if (report.stats.crashes != 1 || report.stats.leader_deaths != 1) fail_msg("%s: nobody died, or nobody followed", deaths[i].name);
    }
}

static void print_times(const char *what) {
    print_message("%s: %u leaders died; the next one led after %.2f s on average, %.2f s at most\n", what, deaths_seen, (double)without_ns / 1e9 / (deaths_seen ? deaths_seen : 1), (double)longest_ns / 1e9);
    deaths_seen = 0;
    without_ns = longest_ns = 0;
}

// The only voter dies and comes back with its store: the others wait, and it goes on with what it had decided.
static void test_a_lone_leader_comes_back(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i++) {
        if (deaths[i].crash.kind == MESSAGE_APPEND || deaths[i].crash.kind == MESSAGE_APPENDED) continue;  // it sends none
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
    print_times("a lone leader");
}

static void test_every_moment(void **state) {
    (void)state;
    every_death(false, false, false);
    // a port that refuses is soon known to be nobody's: well below the time that silence takes, but for one split vote
    assert_true(longest_ns < 5 * SECOND / 2);
    print_times("links reset");
    every_death(true, false, false);
    print_times("links reset, real kernels");
}

static void test_every_moment_in_silence(void **state) {
    (void)state;
    every_death(false, true, false);
    assert_true(longest_ns < 5 * SECOND);
    print_times("without a word");
}

static void test_every_moment_and_back_with_its_store(void **state) {
    (void)state;
    every_death(false, false, true);
    print_times("back with its store");
}

// ---- voters

// The only data peer leads and stands still: a relay leads, replaces it as a voter once, and gives way when it is back.
static void test_silent_data_peer_is_replaced_once(void **state) {
    (void)state;
    sim_case c = sim_case_plain(5, 2, 1, 5, 6, 30);
    c.data_deaths = c.leader_deaths = true;
    c.voters = 3;
    c.troubles = 1;
    c.trouble[0] = (sim_trouble){.kind = SIM_PAUSE_LEADER, .at_ns = 8 * SECOND, .for_ns = 30 * SECOND};
    sim_report report;
    run("a data peer is silent", &c, false, &report);
    print_message("%u changes of voters, %u of leaders\n", report.stats.voter_changes, report.stats.leaders);
    assert_in_range(report.stats.voter_changes, 5, 12);  // three voters; out with it; in with it again
    assert_in_range(report.stats.leaders, 2, 4);
}

// Schedules that ended nowhere. In each a majority of those who vote lives at any time (sim/crash.c allows no other death), and
// who goes of its own will is one of them as long as it is there.
static const sim_campaign once_stuck[] = {
    // who led had left and was no member, so nobody heard it say how the iteration ends; and then it could not write the last checkpoint
    {.first = 157, .real = true, .flaps = true, .partitions = true},
    // a leader came back at another address, and joiners were told the old one for ever
    {.first = 20224, .private_data = true, .flaps = true, .partitions = true},
    // the same, where its old machine did not even refuse
    {.first = 103206, .real = true, .private_data = true, .flaps = true, .partitions = true},
    // a run from a checkpoint whose first leader was dead: the last of a stage was expelled, for anybody could make the state of the start
    {.first = 100308, .odd = true, .partitions = true},
    // all who had a stage's state had been expelled in between, and asked each other for it
    {.first = 101629, .elastic = true, .odd = true, .flaps = true, .partitions = true},
    // who was back without its store became a voter under the store that it had lost
    {.first = 107259, .real = true, .private_data = true, .partitions = true},
    // a data peer that had long been silent passed for an heir when its link fell at last, so the last one was expelled
    {.first = 107770, .real = true},
    // after CLOSE a gradient was sent as if before it; the refusal took a holder for lost that had been told to count
    {.first = 108080, .real = true, .elastic = true, .partitions = true},
    // with an iteration's last FINAL its slots became free one by one, and in them what it had left was launched once more
    {.first = 300852, .real = true, .data_deaths = true},
    // a leader whose patience had grown dropped a voter, though nobody had been heard for 5 s
    {.first = 400245, .private_data = true, .odd = true, .flaps = true, .partitions = true},
    // a relay led after the last FINAL, and the data peer that could have written the checkpoint was not let to vote any more
    {.first = 501916, .real = true, .elastic = true, .partitions = true},
    // who was suspected was asked for the state of the start at every step, ten thousand times in twelve seconds
    {.first = 5002091, .flaps = true, .odd = true, .short_stores = true},
    // routers: who had been cut off restored the flow in an era that the others had passed by
    {.first = 7021238, .real = true, .flaps = true, .partitions = true, .short_stores = true},
    // the checker took the older of two leaders for the newer one when that had led before
    {.first = 8010772, .private_data = true, .partitions = true, .odd = true, .short_stores = true},
    // the harness asked the disk for what a relay had begun to read before it was moved to another stage
    {.first = 8015140, .real = true, .elastic = true, .partitions = true, .data_deaths = true},
    // who led died while it sent the others away, and the harness waited for it
    {.first = 8037678, .real = true, .flaps = true, .short_stores = true},
    // an owner that had been replaced and did not know it said COMMIT once more, and the checker took that for a move
    {.first = 8040114, .odd = true, .data_deaths = true},
    // patience ended while its slots were on their way to who was back: CLOSE left out what that one had counted meanwhile
    {.first = 8410727, .real = true, .elastic = true, .partitions = true, .short_stores = true},
    // after the last FINAL one died, one stood still for 19 s, and the third, which did not wait so long, left that one alone
    {.first = 8529558, .flaps = true, .odd = true},
    // one of three was to be dropped while it was cut off, in that moment another one died, and the third could be elected by nobody but that one
    {.first = 8532382, .elastic = true, .flaps = true, .odd = true, .short_stores = true},
    // the harness let two die at once of whom the single voter made voters before it could know
    {.first = 8718306, .flaps = true, .partitions = true, .odd = true},
    // a voter that was cut off was dropped at the moment when another one died, and the leader led no more before it could take that back
    {.first = 8509870, .real = true, .private_data = true, .partitions = true, .short_stores = true},
    // a relay took its leave when its log began afresh: it was no member to itself, and to the others one that answered no SURVEY
    {.first = 8924645, .carried = true, .stage_losses = true, .private_data = true, .partitions = true, .odd = true, .short_stores = true},
    // from a checkpoint: who alone had the state of the start stood still, and was expelled before a stage had fetched it
    {.first = 9222586, .carried = true, .odd = true, .short_stores = true},
    // the harness sent nobody in place of the last data peer, which was asked to leave while it was cut off, and had been expelled
    {.first = 9236159, .real = true, .flaps = true},
    // the checker forgot what a peer that was expelled twice had left the first time, since it had got nothing in between
    {.first = 9223240, .real = true, .private_data = true, .partitions = true, .data_deaths = true},
    // those who came in place of a lost stage knew only one that had left, and nobody named another one to them
    {.first = 9266650, .stage_losses = true, .partitions = true, .odd = true},
    // who led was never heard to say so, and was not believed when it sent all home: the last FINAL had not come either
    {.first = 9503449, .real = true, .partitions = true},
    // an heir took a microbatch for further than it was, for a repair had brought the gradient ahead of the activation: it kept the
    // owner's only slot from what held the only slot where that was awaited
    {.first = 9539168, .partitions = true, .odd = true, .short_stores = true},
    // who came back from being cut off heard a new leader in heartbeats alone, knew none of the voters, and asked nobody
    {.first = 10020019, .flaps = true, .partitions = true, .odd = true},
    // what was home waited where its only way on waited for a slot, and had been told to go on by a RESUME, which evicted nobody
    {.first = 9939283, .carried = true, .flaps = true, .partitions = true, .odd = true, .short_stores = true},
    // the harness named nobody else to the only relay that could have worked for a stage when the one that it knew died
    {.first = 9989112, .elastic = true, .odd = true},
    // who had been silent for as long as voters are dropped for was not yet suspected, and became a voter and none at every round trip
    {.first = 10938886, .real = true, .elastic = true, .carried = true, .partitions = true, .short_stores = true},
    // the harness took the next life of a dead relay, which knew nobody but a data peer that died, too, for that relay
    {.first = 11424780, .partitions = true, .odd = true},
    // in the harness a dial that was begun while the other one was cut off took three times as long as the cut, and voters went home meanwhile
    {.first = 11443837, .real = true, .flaps = true, .short_stores = true},
    // a relay led, and the data peers that voted had all taken their leave: one that stayed was not chosen
    {.first = 11474135, .real = true},
    // who led stood still, was expelled, was told who leads while it still took itself for the leader, and asked nobody afterwards
    {.first = 11747847, .real = true, .stage_losses = true, .private_data = true, .flaps = true},
    // all came back at once with more entries in their stores than there is room for: whoever was elected had none for its first word
    {.first = 11831007, .stage_losses = true, .odd = true},
    // the harness sent relays again that had left too early, and the only one that they knew left, too
    {.first = 13672156, .real = true, .elastic = true, .stage_losses = true, .flaps = true},
    // who had read of its expulsion was sent the state of a log that ends before, and took itself for that member again
    {.first = 13238452, .real = true, .flaps = true, .partitions = true, .short_stores = true},
    // who led stood still, was replaced, and heard the last FINAL, END and goodbye while it still took itself for the leader: it waited for ever
    {.first = 17174697, .real = true, .restarting = true, .stage_deaths = true, .flaps = true, .partitions = true, .short_stores = true},
    // one knew nobody but its leader, whose next life waited to be let in by it, and so believed nobody who led by then
    {.first = 17208289, .carried = true, .slow_stores = true, .flaps = true, .odd = true, .short_stores = true},
    // two were cut off while all others who vote were replaced; who led died, and they believed nobody of those who were left
    {.first = 1104082, .carried = true, .flaps = true, .odd = true, .short_stores = true},
    {.first = 138, .private_data = true},  // private data: their peer came back before its older self was expelled, and nobody told it who leads by then
    {.first = 5079},  // a voter took its leave and went, another one died, and the third had nobody to agree with
    {.first = 5281},  // one was silent; a fourth was added before that one was dropped, and died: two of four
    {.first = 5217},  // two had died and a third was cut off; that one was dropped, and the two who heard each other were two of four
    {.first = 7002},  // who had left was dropped at the moment when another one had died
    {.first = 5542},  // the same as 5281, with one that was known to be dead
    {.first = 7077},  // a voter came back at another address while nobody led, and found only relays, who did not say where the others were
    {.first = 5517},  // a relay was cut off until it knew nobody any more who votes, and believed no stranger
    {.first = 7344},  // the last data peer was asked to leave: it led, handed over to a relay, which handed over to it, and so on
    {.first = 7435},  // the same, and a pause took its vote, which it did not get back
    {.first = 7285},  // a log's state came behind an older one, and what had been expelled between them stayed among the living
    {.first = 5318},  // one was cut off and dropped at the moment when another one's link had been reset
    // who led at the end had come while others were cut off, who knew none of those that vote by then; it told them the end, and was not believed
    {.first = 3202417, .real = true, .flaps = true, .partitions = true, .short_stores = true},
    {.first = 7342},  // a relay led at the end, and the data peer that could have written the last checkpoint had been asked to leave
};

static void test_no_schedule_ends_nowhere(void **state) {
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

// Stores that are begun anew every few entries: who comes back reads one, and who is far behind is sent the state.
static void test_short_stores(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {60, 20, 20};
    sim_campaign_result r[CAMPAIGN_KINDS], all = {0};
    campaign_kinds_pass((sim_campaign){.leader_deaths = true, .short_stores = true}, count, MOST_STEPS, r);
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) sim_campaign_add(&all, &r[kind]);
    print_message("%llu stores begun anew, %llu read again\n", (unsigned long long)all.shortened, (unsigned long long)all.recalled);
    assert_true(all.shortened > all.runs && all.recalled > all.runs / 12);
}

// As many iterations as one likes: what a store holds stays as it is.
static void test_a_store_does_not_grow(void **state) {
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
        cmocka_unit_test(test_every_moment), cmocka_unit_test(test_every_moment_in_silence), cmocka_unit_test(test_every_moment_and_back_with_its_store), cmocka_unit_test(test_a_lone_leader_comes_back),
        cmocka_unit_test(test_silent_data_peer_is_replaced_once), cmocka_unit_test(test_no_schedule_ends_nowhere),
        cmocka_unit_test(test_short_stores), cmocka_unit_test(test_a_store_does_not_grow), cmocka_unit_test(test_random),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
