// The number and cost of microbatches from each sender to each receiver, as a table at the end.
#include "cli/report_inside.h"

void report_flows_table(report *r) {
    char line[REPORT_LINE + 16], text[REPORT_LINE], name[REPORT_PEER_TEXT];
    if (r->style != REPORT_LIVE && r->style != REPORT_PLAIN) return;
    if (report_flows_summary(r, ", ", text) == 0) return;
    snprintf(line, sizeof line, "routing at the end: %.2000s", text);
    report_say(r, line);
    for (uint32_t stage = 0; stage < r->stages; stage++) {
        for (uint32_t i = 0; i < r->senders; i++) {
            const report_sender *s = &r->sender[i];
            if (s->stage != stage || s->flows == 0) continue;
            report_flows_hops(r, s->flow, s->flows, text);
            snprintf(line, sizeof line, "  stage %u  %s  %.1900s", stage, report_flows_name(r, s->member, name), text);
            report_say(r, line);
        }
    }
}
