#include "protocol/core/timing.h"

#include <math.h>

enum { GAP_WEIGHT_SHIFT = 4 };  // a gap has the weight 1/16

static const double sure_deviations = 3.5;        // phi is 3.6 at this many deviations
static const double deviation_floor_ns = 150e6;   // a busy core may delay a thread by this much
static const uint64_t accept_floor_ns = 2 * TIMING_S;
static const uint64_t unmeasured_bytes_per_s = 1000 * 1000;
static const uint64_t complete_floor_ns = 2 * TIMING_S;
static const uint64_t complete_factor = 4;        // an estimate may be wrong by this factor
static const uint64_t overdue_most_ns = 600 * TIMING_S;  // limits raised by silence stay below about twice this
static const uint64_t eta_most_ns = 3600 * TIMING_S;     // larger estimates are cut to this
static const uint32_t most_false_alarms = 5;
static const uint64_t expel_factor = 3;           // a silence as long as a third of the limit was survived before

// False alarms raise the limit, and quiet hours lower it again. If it only grew, deaths would be
// noticed late for ever on a link with bad hours.
static void judge(timing_link *link, uint64_t now_ns, bool false_alarm) {
    if (!false_alarm && now_ns < link->quiet_ns + TIMING_QUIET_NS) return;
    if (false_alarm && link->false_alarms < most_false_alarms) link->false_alarms++;
    if (!false_alarm && link->false_alarms > 0) link->false_alarms--;
    if (!false_alarm) link->longest_ns /= 2;
    link->quiet_ns = now_ns;
}

void timing_heard(timing_link *link, uint64_t now_ns) { timing_heard_at(link, now_ns, TIMING_SUSPECT_PHI); }

void timing_heard_at(timing_link *link, uint64_t now_ns, double phi) {
    if (link->heard_ns != 0 && now_ns > link->heard_ns) {
        double gap = (double)(now_ns - link->heard_ns);
        judge(link, now_ns, timing_suspect_at(link, now_ns, phi));
        if (now_ns - link->heard_ns > link->longest_ns) link->longest_ns = now_ns - link->heard_ns;
        double error = gap - link->gap_mean_ns;
        link->gap_mean_ns += error / (1 << GAP_WEIGHT_SHIFT);
        link->gap_deviation_ns += (fabs(error) - link->gap_deviation_ns) / (1 << GAP_WEIGHT_SHIFT);
    } else if (link->heard_ns == 0) {
        link->first_ns = now_ns;
        link->gap_mean_ns = (double)TIMING_HEARTBEAT_NS;
        link->gap_deviation_ns = (double)TIMING_HEARTBEAT_NS / 2;
    }
    link->heard_ns = now_ns;
}

// An idle link has one heartbeat per TIMING_HEARTBEAT_NS: a shorter gap is never expected.
static double mean_of(const timing_link *link) {
    return link->gap_mean_ns > (double)TIMING_HEARTBEAT_NS ? link->gap_mean_ns : (double)TIMING_HEARTBEAT_NS;
}

static double deviation_of(const timing_link *link) {
    double deviation = link->gap_deviation_ns > deviation_floor_ns ? link->gap_deviation_ns : deviation_floor_ns;
    return deviation * (double)(1u << link->false_alarms);
}

double timing_phi(const timing_link *link, uint64_t now_ns) {
    if (link->heard_ns == 0 || now_ns <= link->heard_ns) return 0;
    double z = ((double)(now_ns - link->heard_ns) - mean_of(link)) / deviation_of(link);
    if (z <= 0) return 0;
    double tail = 0.5 * erfc(z / 1.4142135623730951);
    return tail > 1e-300 ? -log10(tail) : 300;
}

bool timing_suspect(const timing_link *link, uint64_t now_ns) { return timing_suspect_at(link, now_ns, TIMING_SUSPECT_PHI); }

// True if φ reaches `phi`. The first comparison avoids the computation, because most links were
// heard recently.
bool timing_suspect_at(const timing_link *link, uint64_t now_ns, double phi) {
    return now_ns > link->heard_ns + TIMING_HEARTBEAT_NS && timing_phi(link, now_ns) >= phi;
}

uint64_t timing_sure_until(const timing_link *link) {
    return link->heard_ns + (uint64_t)(mean_of(link) + sure_deviations * deviation_of(link));
}

uint64_t timing_smooth(uint64_t old_ns, uint64_t new_ns) { return old_ns == 0 ? new_ns : old_ns - old_ns / 8 + new_ns / 8; }

void timing_accepted(timing_link *link, uint64_t delay_ns) { link->accept_ns = timing_smooth(link->accept_ns, delay_ns); }

void timing_got(timing_link *link, uint64_t delay_ns) { link->get_ns = timing_smooth(link->get_ns, delay_ns); }

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

void timing_accept_overdue(timing_link *link, uint64_t waited_ns) {
    link->accept_ns = larger(link->accept_ns, (waited_ns < overdue_most_ns ? waited_ns : overdue_most_ns) / 2);
}

void timing_get_overdue(timing_link *link, uint64_t waited_ns) {
    link->get_ns = larger(link->get_ns, (waited_ns < overdue_most_ns ? waited_ns : overdue_most_ns) / 2);
}

uint64_t timing_expel_limit(const timing_link *link) {
    if (link->heard_ns < link->first_ns + TIMING_EXPEL_SILENCE_NS) return TIMING_EXPEL_SILENCE_NS;
    uint64_t limit = expel_factor * link->longest_ns;
    if (limit < TIMING_EXPEL_STEADY_NS) limit = TIMING_EXPEL_STEADY_NS;
    return limit < TIMING_EXPEL_SILENCE_NS ? limit : TIMING_EXPEL_SILENCE_NS;
}

uint64_t timing_get_limit(const timing_link *link) { return TIMING_GET_NS + 4 * larger(link->get_ns, link->accept_ns); }

uint64_t timing_accept_limit(const timing_link *link, uint64_t bytes) {
    uint64_t expected = link->accept_ns != 0 ? link->accept_ns : bytes * 1000 / (unmeasured_bytes_per_s / 1000 / 1000);
    return accept_floor_ns + 4 * expected;
}

static uint64_t believed(uint64_t eta_ns) { return eta_ns < eta_most_ns ? eta_ns : eta_most_ns; }

uint64_t timing_complete_limit(const timing_link *link, uint64_t eta_ns) {
    return complete_floor_ns + link->accept_ns + complete_factor * believed(eta_ns);
}

uint64_t timing_owner_limit(uint64_t slowest_step_ns) { return 2 * complete_floor_ns + complete_factor * believed(slowest_step_ns); }
