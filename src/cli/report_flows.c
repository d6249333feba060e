// The number and cost of microbatches from each sender to each receiver: as a line and in the status.
#include "cli/report_inside.h"

#include <string.h>

enum { HOP = 96 };

static report_sender *sender_of(report *r, uint64_t member) {
    for (uint32_t i = 0; i < r->senders; i++) {
        if (r->sender[i].member == member) return &r->sender[i];
    }
    return NULL;
}

static report_sender *sender_or_new(report *r, const report_event *e) {
    report_sender *s = sender_of(r, e->member);
    if (s != NULL || r->senders == REPORT_SENDERS) return s;
    s = &r->sender[r->senders++];
    *s = (report_sender){.member = e->member, .stage = e->stage};
    return s;
}

void report_flows_meet(report *r, const report_event *e) {
    report_sender *s = sender_or_new(r, e);
    if (s != NULL && e->peer[strspn(e->peer, "0")] != 0) snprintf(s->peer, sizeof s->peer, "%.8s", e->peer);
}

void report_flows_remember(report *r, const report_event *e) {
    report_sender *s = sender_or_new(r, e);
    if (s == NULL) return;
    r->rerouted = e->changes != s->changes;
    *s = (report_sender){.member = e->member, .stage = e->stage, .changes = e->changes, .flows = e->flows};
    snprintf(s->peer, sizeof s->peer, "%.8s", e->peer);
    memcpy(s->flow, e->flow, e->flows * sizeof *s->flow);
    if (r->rerouted) r->changed_ns[r->changes++ % REPORT_CHANGES] = report_now_ns();
}

void report_flows_forget(report *r, uint64_t member) {
    report_sender *s = sender_of(r, member);
    if (s != NULL) *s = r->sender[--r->senders];
}

const char *report_flows_name(const report *r, uint64_t member, char text[REPORT_PEER_TEXT]) {
    const report_sender *s = sender_of((report *)r, member);
    if (s != NULL && *s->peer)
        snprintf(text, REPORT_PEER_TEXT, "peer %s", s->peer);
    else
        snprintf(text, REPORT_PEER_TEXT, "member %llu", (unsigned long long)member);
    return text;
}

static void cost_text(double cost_us, char text[REPORT_PEER_TEXT]) {
    snprintf(text, REPORT_PEER_TEXT, cost_us < 1000 ? "%.2f ms" : cost_us < 100000 ? "%.1f ms" : "%.0f ms", cost_us / 1000);
}

// "4 to peer 3c4d5e6f (12.3 ms), ...": the units of all data peers together.
void report_flows_hops(const report *r, const report_flow *flow, size_t flows, char text[REPORT_LINE]) {
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; i < flows && length + HOP < REPORT_LINE; i++) {
        uint64_t units = 0;
        bool first = true;
        for (size_t j = 0; j < flows; j++) {
            if (flow[j].to == flow[i].to) units += flow[j].units;
            first &= j >= i || flow[j].to != flow[i].to;
        }
        char name[REPORT_PEER_TEXT], cost[REPORT_PEER_TEXT];
        if (!first) continue;
        cost_text((double)flow[i].cost_us, cost);
        length += (size_t)snprintf(text + length, REPORT_LINE - length, "%s%llu to %s (%s)", length > 0 ? ", " : "",
                                   (unsigned long long)units, report_flows_name(r, flow[i].to, name), cost);
    }
}

void report_flows_line(const report *r, const report_event *e, char line[REPORT_LINE]) {
    char hops[REPORT_LINE], name[REPORT_PEER_TEXT];
    report_flows_hops(r, e->flow, e->flows, hops);
    snprintf(line, REPORT_LINE, "routing: %s of stage %llu sends %.1800s", report_flows_name(r, e->member, name),
             (unsigned long long)e->stage, *hops ? hops : "nothing");
}

// Units and mean cost of a microbatch from one stage to the next.
static double stage_cost(const report *r, uint64_t stage, uint64_t *units) {
    double cost = 0;
    *units = 0;
    for (uint32_t i = 0; i < r->senders; i++) {
        const report_sender *s = &r->sender[i];
        for (size_t j = 0; j < s->flows && s->stage == stage; j++) {
            *units += s->flow[j].units;
            cost += (double)s->flow[j].units * (double)s->flow[j].cost_us;
        }
    }
    return *units > 0 ? cost / (double)*units : 0;
}

static uint32_t changes_of_late(const report *r) {
    uint32_t count = 0;
    uint32_t kept = r->changes < REPORT_CHANGES ? r->changes : REPORT_CHANGES;
    for (uint32_t i = 0; i < kept; i++) count += report_now_ns() - r->changed_ns[i] < (int64_t)60 * 1000000000;
    return count;
}

// The total comes first: a narrow terminal cuts off the end.
size_t report_flows_summary(const report *r, const char *between, char line[REPORT_LINE]) {
    char hops[REPORT_LINE] = "", cost[REPORT_PEER_TEXT], to[REPORT_PEER_TEXT];
    size_t length = 0;
    double whole = 0;
    for (uint32_t stage = 0; stage < r->stages && length + 2 * HOP < REPORT_LINE / 2; stage++) {
        uint64_t units;
        double each = stage_cost(r, stage, &units);
        if (units == 0) continue;
        whole += each;
        cost_text(each, cost);
        snprintf(to, sizeof to, stage + 1 < r->stages ? "%u" : "owner", stage + 1);
        length += (size_t)snprintf(hops + length, REPORT_LINE - length, "%s%u-%s %llu at %s", between, stage, to,
                                   (unsigned long long)units, cost);
    }
    line[0] = 0;
    if (length == 0) return 0;
    cost_text(whole, cost);
    uint32_t changes = changes_of_late(r);
    return (size_t)snprintf(line, REPORT_LINE, "%s a microbatch%.*s%s%u change%s in the last minute", cost, REPORT_LINE / 2, hops,
                            between, changes, changes == 1 ? "" : "s");
}

bool report_flows_status(const report *r, char line[REPORT_LINE]) {
    char text[REPORT_LINE];
    if (report_flows_summary(r, "  ", text) == 0) return false;
    snprintf(line, REPORT_LINE, "routing  %.2000s", text);
    return true;
}
