// The board in Prometheus' text form (version 0.0.4). No label has the name of a peer or a file.
#include "cli/run_board.h"
#include "cli/run_board_inside.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { METRICS_LINE = 512, METRICS_MOST = 96 + 2 * WIRE_MAX_STAGES };

typedef struct metrics_text {
    char *text;  // METRICS_MOST lines
    size_t length;
} metrics_text;

__attribute__((format(printf, 2, 3))) static void put(metrics_text *t, const char *format, ...) {
    va_list list;
    size_t room = (size_t)METRICS_MOST * METRICS_LINE - t->length;
    va_start(list, format);
    int n = vsnprintf(t->text + t->length, room, format, list);
    va_end(list);
    if (n > 0 && (size_t)n < room) t->length += (size_t)n;
}

static void put_kind(metrics_text *t, const char *name, const char *kind, const char *help) {
    put(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void put_number(metrics_text *t, const char *name, const char *kind, const char *help, double value) {
    put_kind(t, name, kind, help);
    put(t, "%s %.17g\n", name, value);
}

static void put_stages(metrics_text *t, const run_board *b) {
    uint32_t last = 0;
    for (uint32_t i = 0; i < WIRE_MAX_STAGES; i++)
        if (b->live[i] > 0 || b->standby[i] > 0 || (b->started.kind != REPORT_KINDS && i < b->started.stages)) last = i;
    put_kind(t, "braid_run_peers", "gauge", "Members of the run by stage, without standby replicas.");
    for (uint32_t i = 0; i <= last; i++) put(t, "braid_run_peers{stage=\"%u\"} %u\n", i, b->live[i]);
    put_kind(t, "braid_run_standby_peers", "gauge", "Standby replicas by stage.");
    for (uint32_t i = 0; i <= last; i++) put(t, "braid_run_standby_peers{stage=\"%u\"} %u\n", i, b->standby[i]);
}

static void put_progress(metrics_text *t, const run_board *b) {
    char text[BOARD_TEXT];
    bool trained = b->iteration.kind != REPORT_KINDS;
    bool trains = strcmp(board_run_record(b, text).state, "training") == 0;
    put_number(t, "braid_ready", "gauge", "1 if the run trains.", trains);
    put_number(t, "braid_run_iteration", "gauge", "Iterations that the weights have seen.",
               trained ? (double)b->iteration.iteration : 0);
    if (trained) put_number(t, "braid_run_loss", "gauge", "Training loss of the newest iteration.", b->iteration.loss);
    if (b->eval.kind != REPORT_KINDS)
        put_number(t, "braid_run_held_out_loss", "gauge", "Newest loss on the held-out text.", b->eval.loss);
    put_number(t, "braid_run_tokens_total", "counter", "Tokens of the iterations so far.", (double)b->total.tokens);
    put_number(t, "braid_run_tokens_per_second", "gauge", "Tokens per second of the newest iteration.",
               trained ? b->iteration.tokens_per_second : 0);
    if (b->checkpoint.kind != REPORT_KINDS)
        put_number(t, "braid_run_checkpoint_iteration", "gauge", "Iteration of the newest checkpoint.",
                   (double)b->checkpoint.iteration);
}

static void put_losses(metrics_text *t, const run_board *b) {
    uint64_t changes = b->total.changes;
    for (uint32_t i = 0; i < b->peers; i++) changes += b->peer[i].changes;
    put_number(t, "braid_run_peers_lost_total", "counter", "Members that were removed because they did not answer.",
               (double)b->total.lost);
    put_number(t, "braid_run_peers_left_total", "counter", "Members that left in order.", (double)b->total.left);
    put_number(t, "braid_run_repairs_total", "counter", "Microbatches that were repaired in one stage.",
               (double)b->total.repairs);
    put_number(t, "braid_run_reroutes_total", "counter", "Changes of flows between two peers.", (double)changes);
    put_number(t, "braid_run_microbatches_lost_total", "counter",
               "Planned microbatches that were left out because their data was missing.", (double)b->total.left_out);
    put_number(t, "braid_run_rollbacks_total", "counter", "Returns to a checkpoint.", (double)b->total.rollbacks);
    put_kind(t, "braid_run_recovery_seconds", "summary",
             "Time from the first sign of a loss to the last repair because of it.");
    put(t, "braid_run_recovery_seconds_sum %.17g\nbraid_run_recovery_seconds_count %llu\n", b->total.recovery_s,
        (unsigned long long)b->total.recoveries);
}

static void put_work(metrics_text *t, const run_board *b) {
    const report_work *w = &b->iteration.work;
    bool trained = b->iteration.kind != REPORT_KINDS;
    if (trained && w->computed_seconds > 0)
        put_number(t, "braid_run_goodput_ratio", "gauge", "Share of the compute time whose result was used.",
                   1 - w->wasted_seconds / w->computed_seconds);
    put_kind(t, "braid_run_sent_bytes_total", "counter", "Bytes sent to other peers, by kind.");
    put(t, "braid_run_sent_bytes_total{kind=\"tensors\"} %llu\n", (unsigned long long)(trained ? w->tensor_bytes : 0));
    put(t, "braid_run_sent_bytes_total{kind=\"messages\"} %llu\n",
        (unsigned long long)(trained ? w->message_bytes : 0));
    put(t, "braid_run_sent_bytes_total{kind=\"forwarded\"} %llu\n",
        (unsigned long long)(trained ? w->carried_bytes : 0));
    put_number(t, "braid_memory_bytes", "gauge", "Resident memory of the processes here.",
               trained ? (double)w->memory_bytes : 0);
    put_number(t, "braid_memory_limit_bytes", "gauge", "The most memory that they may use, 0: no known limit.",
               b->machine.kind == REPORT_KINDS ? 0 : (double)b->machine.memory);
}

char *run_board_metrics(void *board) {
    run_board *b = board;
    metrics_text t = {.text = malloc((size_t)METRICS_MOST * METRICS_LINE)};
    if (!t.text) return NULL;
    t.text[0] = 0;
    pthread_mutex_lock(&b->lock);
    put_progress(&t, b);
    put_stages(&t, b);
    put_losses(&t, b);
    put_work(&t, b);
    pthread_mutex_unlock(&b->lock);
    return t.text;
}
