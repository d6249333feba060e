#include "cli/report.h"

#include "cli/report_inside.h"
#include "format/quantity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW_EVERY_MS = 100, TICK_EVERY_MS = 250 };

report *report_new(report_style style, FILE *out) {
    report *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    const char *no_color = getenv("NO_COLOR");
    if (style == REPORT_AUTO) style = report_can_draw(out) ? REPORT_LIVE : REPORT_PLAIN;
    *r = (report){
        .style = style,
        .out = out,
        .color = style == REPORT_LIVE && (no_color == NULL || *no_color == 0),
        .begun_ns = report_now_ns(),
        .started.kind = REPORT_KINDS,
        .iteration.kind = REPORT_KINDS,
        .eval.kind = REPORT_KINDS,
        .transfer.kind = REPORT_KINDS,
        .train.stride = 1,
        .held_out.stride = 1,
    };
    return r;
}

void report_free(report *r) {
    if (r == NULL) return;
    report_erase(r);
    fflush(r->out);
    report_sinks_free(r->sinks);
    free(r);
}

report_style report_chosen(const report *r) { return r->style; }

// ---- state ----

static void count_phase(report *r, const char *phase) {
    for (size_t i = 0; i < REPORT_PHASES; i++) {
        report_phase_count *slot = &r->phase[i];
        if (slot->count > 0 && strcmp(slot->phase, phase) != 0) continue;
        snprintf(slot->phase, sizeof slot->phase, "%s", phase);
        slot->count++;
        return;
    }
}

uint64_t report_repairs(const report *r, const char *phase) {
    if (phase == NULL) return r->repairs;
    for (size_t i = 0; i < REPORT_PHASES; i++) {
        if (strcmp(r->phase[i].phase, phase) == 0) return r->phase[i].count;
    }
    return 0;
}

static void count_live(report *r, const report_event *e, int change) {
    if (e->stage >= WIRE_MAX_STAGES) return;
    if (e->stage >= r->stages) r->stages = (uint32_t)e->stage + 1;
    uint32_t *count = strcmp(e->role, "shadow") == 0 ? &r->shadows[e->stage] : &r->live[e->stage];
    if (change > 0)
        (*count)++;
    else if (*count > 0)
        (*count)--;
}

static void remember_iteration(report *r, const report_event *e) {
    if (r->iteration.kind == REPORT_KINDS) r->first_iteration = e->iteration > 0 ? e->iteration - 1 : 0;
    r->iteration = *e;
    r->tokens += e->tokens;
    report_curve_add(&r->train, e->iteration, e->loss);
}

static void remember_awaited(report *r, const report_event *e) {
    uint32_t i = 0;
    while (i < r->awaited_count && strncmp(r->awaited[i].peer, e->peer, sizeof r->awaited[i].peer - 1) != 0) i++;
    if (e->kind == REPORT_BACK) {
        if (i < r->awaited_count) r->awaited[i] = r->awaited[--r->awaited_count];
        return;
    }
    if (i < r->awaited_count || i == REPORT_AWAITED_PEERS) return;
    report_awaited *its = &r->awaited[r->awaited_count++];
    its->since_ns = report_now_ns();
    snprintf(its->peer, sizeof its->peer, "%.8s", e->peer);
}

static void remember(report *r, const report_event *e) {
    switch (e->kind) {
    case REPORT_STARTED:
        r->started = *e;
        r->begun_ns = report_now_ns();
        if (e->stages <= WIRE_MAX_STAGES && e->stages > r->stages) r->stages = (uint32_t)e->stages;
        break;
    case REPORT_ITERATION: remember_iteration(r, e); break;
    case REPORT_EVAL:
        r->eval = *e;
        report_curve_add(&r->held_out, e->iteration, e->loss);
        break;
    case REPORT_REPAIR:
        r->repairs++;
        count_phase(r, e->phase);
        break;
    case REPORT_JOINED:
        count_live(r, e, 1);
        report_flows_meet(r, e);
        break;
    case REPORT_LEFT:
    case REPORT_EXPELLED:
        count_live(r, e, -1);
        report_flows_forget(r, e->member);
        break;
    case REPORT_AWAITED:
    case REPORT_BACK: remember_awaited(r, e); break;
    case REPORT_PROMOTED:
        count_live(r, e, 1);
        if (e->stage < WIRE_MAX_STAGES && r->shadows[e->stage] > 0) r->shadows[e->stage]--;
        break;
    case REPORT_FLOWS: report_flows_remember(r, e); break;
    case REPORT_TRANSFER: r->transfer = *e; break;
    default: break;
    }
}

// ---- lines ----

enum { PEER_TEXT = 32 };

// "peer 1a2b3c4d", or its number if the id is not known (empty or all zeros).
static const char *peer_text(const report_event *e, char text[PEER_TEXT]) {
    if (e->peer[strspn(e->peer, "0")] != 0)
        snprintf(text, PEER_TEXT, "peer %.8s", e->peer);
    else
        snprintf(text, PEER_TEXT, "member %llu", (unsigned long long)e->member);
    return text;
}

void report_repairs_text(const report *r, char text[REPORT_LINE]) {
    size_t length = (size_t)snprintf(text, REPORT_LINE, "%llu repair%s", (unsigned long long)r->repairs,
                                     r->repairs == 1 ? "" : "s");
    for (size_t i = 0; i < REPORT_PHASES && r->phase[i].count > 0; i++) {
        length += (size_t)snprintf(text + length, REPORT_LINE - length, "%s%llu %s", i == 0 ? " (" : ", ",
                                   (unsigned long long)r->phase[i].count, r->phase[i].phase);
    }
    if (r->phase[0].count > 0) snprintf(text + length, REPORT_LINE - length, ")");
}

static void iteration_line(const report_event *e, char line[REPORT_LINE]) {
    char speed[QUANTITY_TEXT];
    char left_out[64] = "";
    if (e->left_out > 0) snprintf(left_out, sizeof left_out, "  %llu microbatches left out", (unsigned long long)e->left_out);
    quantity_count_text(e->tokens_per_second, speed);
    snprintf(line, REPORT_LINE, "iteration %llu/%llu  loss %.4f  %s tokens/s  norm %.3g  rate %.3g%s%s",
             (unsigned long long)e->iteration, (unsigned long long)e->of, e->loss, speed, e->norm, e->learning_rate,
             e->skip ? "  skipped: the gradient was not finite" : "", left_out);
}

static void member_line(const report_event *e, char line[REPORT_LINE]) {
    char peer[PEER_TEXT];
    bool joined = e->kind == REPORT_JOINED;
    const char *role = strcmp(e->role, "shadow") == 0 ? "standby" : e->role, *what = joined ? "joined" : e->kind == REPORT_LEFT ? "left" : "was lost from";
    snprintf(line, REPORT_LINE, "%s%s%s %s stage %llu%s%s%s", role, *role ? " " : "", peer_text(e, peer), what,
             (unsigned long long)e->stage, *e->reason ? " (" : "", e->reason, *e->reason ? ")" : "");
}

static void checkpoint_line(const report_event *e, char line[REPORT_LINE]) {
    if (e->failed)
        snprintf(line, REPORT_LINE, "checkpoint at iteration %llu failed: %s", (unsigned long long)e->iteration,
                 *e->text ? e->text : "see above");
    else
        snprintf(line, REPORT_LINE, "checkpoint at iteration %llu saved%s%.300s", (unsigned long long)e->iteration,
                 *e->path ? ": " : "", e->path);
}

static void started_line(const report_event *e, char line[REPORT_LINE]) {
    char parameters[QUANTITY_TEXT], tokens[QUANTITY_TEXT];
    quantity_count_text((double)e->parameters, parameters);
    quantity_count_text((double)e->tokens, tokens);
    int length = snprintf(line, REPORT_LINE, "run '%s': iterations %llu to %llu", e->name,
                          (unsigned long long)e->iteration + 1, (unsigned long long)e->of);
    if (e->parameters > 0)
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), ", %s parameters", parameters);
    if (e->tokens > 0)
        snprintf(line + length, (size_t)(REPORT_LINE - length), ", %s tokens each in %llu microbatches", tokens,
                 (unsigned long long)e->microbatches);
}

enum { WASTED_TEXT = 128, CARRIED_TEXT = 128 };

static void wasted_text(const report_event *e, char text[WASTED_TEXT]) {
    text[0] = 0;
    if (e->work.wasted == 0 || !(e->work.computed_seconds > 0)) return;
    snprintf(text, WASTED_TEXT, ", %llu computations wasted (%.2f s, %.2f %% of the compute time)", (unsigned long long)e->work.wasted, e->work.wasted_seconds,
             100 * e->work.wasted_seconds / e->work.computed_seconds);
}

// A forwarding peer sees the traffic that it relayed, too.
static void carried_text(const report_event *e, char text[CARRIED_TEXT]) {
    char bytes[QUANTITY_TEXT];
    int length = 0;
    text[0] = 0;
    if (e->work.carried > 0) length = snprintf(text, CARRIED_TEXT, ", %llu tensor%s sent through forwarding peers", (unsigned long long)e->work.carried, e->work.carried > 1 ? "s" : "");
    if (e->work.carried_bytes > 0) snprintf(text + length, (size_t)(CARRIED_TEXT - length), ", %s forwarded for others", quantity_size_text(e->work.carried_bytes, bytes));
}

static void failed_line(const report_event *e, const char *of, const char *saved, char line[REPORT_LINE]) {
    const char *why = *e->text ? e->text : "see above";
    if (e->iteration == 0) snprintf(line, REPORT_LINE, "ended before the first iteration: %s", why);
    else snprintf(line, REPORT_LINE, "stopped after iteration %llu%s: %s%s", (unsigned long long)e->iteration, of, why, saved);
}

// The last line of an incomplete run, with the way to continue it.
static void stopped_line(const report_event *e, char line[REPORT_LINE]) {
    char of[32] = "", saved[512] = "", loss[64] = "", weights[REPORT_HASH_TEXT + 16] = "";
    const char *by = strcmp(e->reason, REPORT_BY_LEADER) == 0 ? "the leader ended the run" : e->reason;
    if (e->of > 0) snprintf(of, sizeof of, " of %llu", (unsigned long long)e->of);
    // NAN: nothing was trained here
    if (!isnan(e->loss)) snprintf(loss, sizeof loss, ", last training loss %.4f", e->loss);
    if (*e->path) snprintf(saved, sizeof saved, "; saved in %.400s, --resume continues from there", e->path);
    else if (*e->weights && e->tokens == 0) strcpy(saved, "; nothing new to save");
    else if (*e->weights) strcpy(saved, "; not saved: the run has no checkpoint.dir");
    if (*e->weights) snprintf(weights, sizeof weights, "\nweights %s", e->weights);
    if (e->failed)
        failed_line(e, of, *e->path ? saved : "", line);
    else if (e->iteration == 0)
        snprintf(line, REPORT_LINE, "stopped before the first iteration (%s): nothing to save%s", by, weights);
    else
        snprintf(line, REPORT_LINE, "stopped after iteration %llu%s (%s)%s%s%s", (unsigned long long)e->iteration, of, by, *weights ? loss : "", *weights ? saved : "", weights);
}

static void end_line(const report *r, const report_event *e, char line[REPORT_LINE]) {
    char repairs[REPORT_LINE], time[QUANTITY_TEXT], wasted[WASTED_TEXT], carried[CARRIED_TEXT], loss[64] = "";
    repairs[0] = 0;
    if (!isnan(e->loss)) snprintf(loss, sizeof loss, ", last training loss %.4f", e->loss);  // NAN: no training here
    if (r->repairs > 0) report_repairs_text(r, repairs);
    quantity_duration_text(e->seconds, time);
    wasted_text(e, wasted);
    carried_text(e, carried);
    if (e->failed || e->stopped)
        stopped_line(e, line);
    else if (*e->weights == 0)  // a peer that has left, or completed its part: only the leader knows the result
        snprintf(line, REPORT_LINE, "done after %s%s", time, carried);
    else
        snprintf(line, REPORT_LINE, "done: version %llu%s, %s%s%.120s%s%s%s%.200s\nweights %s",
                 (unsigned long long)e->iteration, loss, time, *repairs ? ", " : "", repairs, wasted, carried,
                 *e->path ? ", saved in " : "", e->path, e->weights);
}

static void rolled_back_line(const report_event *e, char line[REPORT_LINE]) {
    char where[64] = "the start of the run";
    unsigned long long again = e->total;
    if (e->iteration > 0) snprintf(where, sizeof where, "the checkpoint of iteration %llu", (unsigned long long)e->iteration);
    if (again == 0) snprintf(line, REPORT_LINE, "stage %llu has no peer: the run continues from %s as soon as a relay joins", (unsigned long long)e->stage, where);
    else snprintf(line, REPORT_LINE, "lost all copies of stage %llu: rolling back to %s (%llu iteration%s to recompute)",
             (unsigned long long)e->stage, where, again, again == 1 ? "" : "s");
}

static void rare_line(const report_event *e, char line[REPORT_LINE]) {
    char peer[PEER_TEXT];
    unsigned long long stage = e->stage, process = e->process;
    peer_text(e, peer);
    switch (e->kind) {
    case REPORT_READY: snprintf(line, REPORT_LINE, "%s listens at %s", peer, e->address); break;
    case REPORT_PROMOTED: snprintf(line, REPORT_LINE, "standby replica %s takes over stage %llu, which has lost its last peer", peer, stage); break;
    case REPORT_ROLLED_BACK: rolled_back_line(e, line); break;
    case REPORT_SUSPECT: snprintf(line, REPORT_LINE, "%s of stage %llu is unresponsive", peer, stage); break;
    case REPORT_KILLED:
        snprintf(line, REPORT_LINE, "killed %s of stage %llu (process %llu)%s%s", peer, stage, process,
                 *e->phase ? " in " : "", e->phase);
        break;
    case REPORT_SPAWNED:
        snprintf(line, REPORT_LINE, "started a %s (process %llu)", *e->role ? e->role : "peer", process);
        break;
    case REPORT_TRANSFER:
        snprintf(line, REPORT_LINE, "%s fetched the state of stage %llu (%llu blocks)", peer, stage,
                 (unsigned long long)e->total);
        break;
    case REPORT_REFUSED: snprintf(line, REPORT_LINE, "refused: %s", e->text); break;
    case REPORT_LEADER: snprintf(line, REPORT_LINE, "%s at %s is the new leader; others join with --join %s", peer, e->address, e->ticket); break;
    default: snprintf(line, REPORT_LINE, "%s", e->text); break;
    }
}

static void awaited_line(const report_event *e, char line[REPORT_LINE]) {
    char peer[PEER_TEXT], time[QUANTITY_TEXT];
    unsigned long long microbatches = e->microbatches;
    peer_text(e, peer);
    quantity_duration_text(e->seconds, time);
    if (e->kind == REPORT_UNFINISHED)
        snprintf(line, REPORT_LINE, "%s has not returned, and iteration %llu cannot complete without its text: the run ends with the weights of the iteration before", peer, (unsigned long long)e->iteration + 1);
    else if (e->kind == REPORT_BACK)
        snprintf(line, REPORT_LINE, "%s returned after %s, with its %llu microbatches of each iteration", peer, time, microbatches);
    else if (e->seconds > 0)
        snprintf(line, REPORT_LINE, "%s is gone, and %llu microbatches of each iteration need its text: the run waits %s for it, then leaves them out until it returns",
                 peer, microbatches, time);
    else
        snprintf(line, REPORT_LINE, "%s is gone, and %llu microbatches of each iteration need its text: the run waits until it returns", peer, microbatches);
}

static bool compose_line(const report *r, const report_event *e, char line[REPORT_LINE]) {
    char peer[PEER_TEXT];
    switch (e->kind) {
    case REPORT_STARTED: started_line(e, line); return true;
    case REPORT_ITERATION: iteration_line(e, line); return true;
    case REPORT_EVAL:
        snprintf(line, REPORT_LINE, "held-out loss of version %llu: %.4f", (unsigned long long)e->iteration, e->loss);
        return true;
    case REPORT_REPAIR:
        snprintf(line, REPORT_LINE, "repaired microbatch %llu of iteration %llu in stage %llu: %s died %s%s",
                 (unsigned long long)e->microbatch, (unsigned long long)e->iteration, (unsigned long long)e->stage,
                 peer_text(e, peer), strcmp(e->phase, "committed") == 0 ? "when it was " : "in ",
                 *e->phase ? e->phase : "an unknown phase");
        return true;
    case REPORT_JOINED:
    case REPORT_LEFT:
    case REPORT_EXPELLED: member_line(e, line); return true;
    case REPORT_TAKEOVER:
        snprintf(line, REPORT_LINE, "%s takes over %llu microbatch%s of each iteration: %s data peer is gone", peer_text(e, peer), (unsigned long long)e->microbatches,
                 e->microbatches == 1 ? "" : "es", e->microbatches == 1 ? "its" : "their");
        return true;
    case REPORT_AWAITED:
    case REPORT_BACK:
    case REPORT_UNFINISHED: awaited_line(e, line); return true;
    case REPORT_FLOWS: report_flows_line(r, e, line); return r->rerouted;
    case REPORT_CHECKPOINT: checkpoint_line(e, line); return true;
    case REPORT_END: end_line(r, e, line); return true;
    case REPORT_TRANSFER: rare_line(e, line); return e->done >= e->total;
    default: rare_line(e, line); return true;
    }
}

bool report_to_line(const report *r, const report_event *e, char line[REPORT_LINE]) {
    if (!compose_line(r, e, line)) return false;
    // Names and reasons may come from other machines and must not control the terminal.
    for (char *c = line; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if ((byte < ' ' && byte != '\n') || byte == 0x7f) *c = '?';
    }
    return true;
}

// ---- showing ----

// On a terminal, an event that the status already shows gets no line of its own.
static bool in_status(const report_event *e) {
    return (e->kind == REPORT_ITERATION && !e->skip) || e->kind == REPORT_SPAWNED || e->kind == REPORT_FLOWS;
}

static void show_live(report *r, const report_event *e) {
    char line[REPORT_LINE];
    bool printed = !in_status(e) && report_to_line(r, e, line);
    if (printed) {
        report_erase(r);
        fprintf(r->out, "%s\n", line);
    }
    if (e->kind == REPORT_END)
        fflush(r->out);
    else if (printed || report_now_ns() - r->drawn_ns >= DRAW_EVERY_MS * 1000000)
        report_draw(r);
}

static void show(report *r, const report_event *event) {
    char json[REPORT_MAX_LINE], line[REPORT_LINE];
    remember(r, event);
    switch (r->style) {
    case REPORT_LIVE: show_live(r, event); break;
    case REPORT_JSON:
        report_to_json(event, json);
        fprintf(r->out, "%s\n", json);
        fflush(r->out);
        break;
    case REPORT_PLAIN:
        if (report_to_line(r, event, line)) fprintf(r->out, "%s\n", line);
        fflush(r->out);
        break;
    default: break;
    }
}

void report_also(report *r, report_sinks *sinks) {
    report_sinks_free(r->sinks);
    r->sinks = sinks;
    report_event note = {.kind = REPORT_NOTE, .loss = NAN};
    const char *page = report_sinks_page(sinks);
    if (page) snprintf(note.text, sizeof note.text, "the page of this run is at %s", page);
    if (page) show(r, &note);
}

void report_tell(report *r, const report_event *event) {
    report_event lost = {.kind = REPORT_NOTE};
    braid_error why;
    show(r, event);
    if (!r->sinks || !report_sinks_tell(r->sinks, event, &why)) return;
    snprintf(lost.text, sizeof lost.text, "%s", why.text);
    show(r, &lost);
}

void report_say(report *r, const char *text) {
    report_event e = {.kind = REPORT_NOTE};
    snprintf(e.text, sizeof e.text, "%s", text);
    if (r->style == REPORT_LIVE || r->style == REPORT_PLAIN) report_tell(r, &e);
}

void report_tick(report *r) {
    if (r->style == REPORT_LIVE && report_now_ns() - r->drawn_ns >= TICK_EVERY_MS * 1000000) report_draw(r);
}
