// The status at the bottom of a terminal: a bar and a line, redrawn in place.
#include "cli/report_inside.h"
#include "format/quantity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DRAW_MIN_WIDTH = 20, DRAW_MAX_WIDTH = 160, DRAW_MAX_BAR = 40, DRAW_DEFAULT_WIDTH = 80 };

bool report_can_draw(FILE *out) {
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && term != NULL && strcmp(term, "dumb") != 0;
}

static unsigned terminal_width(FILE *out) {
    struct winsize size = {0};
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return DRAW_DEFAULT_WIDTH;
    return size.ws_col < DRAW_MIN_WIDTH ? DRAW_MIN_WIDTH : size.ws_col > DRAW_MAX_WIDTH ? DRAW_MAX_WIDTH : size.ws_col;
}

void report_erase(report *r) {
    if (r->drawn_lines == 0) return;
    fputc('\r', r->out);
    if (r->drawn_lines > 1) fprintf(r->out, "\033[%uA", r->drawn_lines - 1);
    fputs("\033[J", r->out);
    r->drawn_lines = 0;
}

static double elapsed_seconds(const report *r) { return (double)(report_now_ns() - r->begun_ns) * 1e-9; }

// Neither the start was seen nor, for a peer that joined later, an iteration.
static bool waits(const report *r) { return r->started.kind == REPORT_KINDS && r->iteration.kind == REPORT_KINDS; }

static void bar_line(const report *r, unsigned width, char line[REPORT_LINE]) {
    if (waits(r)) {
        snprintf(line, REPORT_LINE, "waiting for peers");
        return;
    }
    char bar[DRAW_MAX_BAR + 1], left[QUANTITY_TEXT];
    uint64_t now = r->iteration.kind == REPORT_KINDS ? r->first_iteration : r->iteration.iteration;
    uint64_t of = r->iteration.kind == REPORT_KINDS ? r->started.of : r->iteration.of;
    double share = of > 0 ? fmin((double)now / (double)of, 1) : 0;
    uint64_t done = now - r->first_iteration;
    quantity_duration_text(done > 0 && of >= now ? elapsed_seconds(r) / (double)done * (double)(of - now) : -1, left);
    unsigned room = width / 3 < DRAW_MAX_BAR ? width / 3 : DRAW_MAX_BAR, filled = (unsigned)(share * room);
    memset(bar, ' ', room);
    memset(bar, '=', filled);
    if (filled < room) bar[filled] = '>';
    bar[room] = 0;
    snprintf(line, REPORT_LINE, "[%s] %3.0f %%  %llu/%llu  %s left", bar, share * 100, (unsigned long long)now,
             (unsigned long long)of, left);
}

static int awaited_text(const report *r, char *text, size_t room) {
    int length = 0;
    for (uint32_t i = 0; i < r->awaited_count && (size_t)length + 64 < room; i++) {
        char time[QUANTITY_TEXT];
        quantity_duration_text((double)(report_now_ns() - r->awaited[i].since_ns) * 1e-9, time);
        length += snprintf(text + length, room - (size_t)length, "awaiting %s for %s  ", r->awaited[i].peer, time);
    }
    return length;
}

void report_live_text(const report *r, char text[REPORT_LINE]) {
    size_t length = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < r->stages && length + 16 < REPORT_LINE; i++) {
        length += (size_t)snprintf(text + length, REPORT_LINE - length, "%s%u", i > 0 ? "|" : "", r->live[i]);
        if (r->shadows[i] > 0) length += (size_t)snprintf(text + length, REPORT_LINE - length, "+%u", r->shadows[i]);
    }
}

static void status_line(const report *r, char line[REPORT_LINE]) {
    char speed[QUANTITY_TEXT], live[REPORT_LINE];
    int length = awaited_text(r, line, REPORT_LINE / 2);
    if (r->iteration.kind != REPORT_KINDS) {
        quantity_count_text((double)r->tokens / fmax(elapsed_seconds(r), 1e-3), speed);
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), "loss %.4f  ", r->iteration.loss);
    } else if (!waits(r)) {
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), "waiting for the first iteration  ");
    }
    if (r->iteration.kind != REPORT_KINDS && r->iteration.left_out > 0)
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), "left out %llu  ", (unsigned long long)r->iteration.left_out);
    if (r->eval.kind != REPORT_KINDS)
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), "held-out %.4f (version %llu)  ",
                           r->eval.loss, (unsigned long long)r->eval.iteration);
    if (r->iteration.kind != REPORT_KINDS)
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), "%s tokens/s  ", speed);
    report_live_text(r, live);
    if (live[strspn(live, "0|")] != 0) {  // one process has no peers
        length += snprintf(line + length, (size_t)(REPORT_LINE - length), "peers %.120s  ", live);
    }
    if (r->repairs > 0)
        length +=
            snprintf(line + length, (size_t)(REPORT_LINE - length), "repairs %llu  ", (unsigned long long)r->repairs);
    if (r->transfer.kind != REPORT_KINDS && r->transfer.done < r->transfer.total) {
        snprintf(line + length, (size_t)(REPORT_LINE - length), "stage %llu's state %.0f %%",
                 (unsigned long long)r->transfer.stage, 100 * (double)r->transfer.done / (double)r->transfer.total);
    }
}

void report_draw(report *r) {
    char bar[REPORT_LINE], status[REPORT_LINE], routing[REPORT_LINE];
    unsigned width = terminal_width(r->out) - 1;  // the last column would wrap on some terminals
    bar_line(r, width, bar);
    status_line(r, status);
    report_erase(r);
    const char *on = r->color ? "\033[32m" : "", *off = r->color ? "\033[0m" : "";
    fprintf(r->out, "%s%.*s%s\n%.*s", on, (int)width, bar, off, (int)width, status);
    r->drawn_lines = 2;
    if (report_flows_status(r, routing)) {
        fprintf(r->out, "\n%.*s", (int)width, routing);
        r->drawn_lines++;
    }
    r->drawn_ns = report_now_ns();
    fflush(r->out);
}
