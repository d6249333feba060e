#include "cli/plan_whole_plot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 960,
    LEFT = 84,
    RIGHT = 20,
    TOP = 48,
    ROW = 34,
    BAR = 24,
    ROWS = 3,
    FOOT = 54,
    TICKS = 5,
    LEAST_LABEL = 14
};

typedef struct plot {
    FILE *out;
    double at, scale;  // seconds so far; pixels a second
} plot;

static void bar(const plot *p, int row, double start, double seconds, const char *class, const char *label) {
    double x = LEFT + start * p->scale, width = seconds * p->scale;
    if (seconds <= 0) return;
    fprintf(p->out,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"><title>%s: %.3f s from %.3f s "
            "on</title></rect>\n",
            class, x, TOP + row * ROW, width, BAR, label, seconds, start);
    if (width >= LEAST_LABEL)
        fprintf(p->out, "<text class=\"in\" x=\"%.1f\" y=\"%d\">%s</text>\n", x + width / 2, TOP + row * ROW + BAR - 8,
                label);
}

static void name_group(uint32_t group, char out[16]) {
    if (group == SWAP_RESIDENT)
        snprintf(out, 16, "res.");
    else
        snprintf(out, 16, "%u", group + 1);
}

static void draw_step(void *context, const swap_step *step) {
    plot *p = context;
    char name[16];
    name_group(step->group, name);
    bar(p, 0, p->at, step->compute_s, step->backward ? "back" : "fore", step->apply ? "apply" : name);
    if (step->read != SWAP_NONE) {
        name_group(step->read, name);
        // with one disk for both directions the read follows the write
        double behind = step->seconds - step->read_s < step->write_s ? step->seconds - step->read_s : step->write_s;
        bar(p, 1, p->at + (behind > 0 && step->write_s > 0 ? behind : 0), step->read_s, "read", name);
    }
    if (step->written != SWAP_NONE) {
        name_group(step->written, name);
        bar(p, 2, p->at, step->write_s < step->seconds ? step->write_s : step->seconds, "write", name);
    }
    if (step->apply)
        bar(p, 1, p->at, step->seconds, "read", "optimizer"), bar(p, 2, p->at, step->seconds, "write", "optimizer");
    p->at += step->seconds;
}

static void draw_axes(const plot *p, double seconds) {
    static const char *const names[ROWS] = {"compute", "read", "write"};
    for (int row = 0; row < ROWS; row++)
        fprintf(p->out, "<text class=\"row\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT - 10, TOP + row * ROW + BAR - 8,
                names[row]);
    for (int i = 0; i <= TICKS; i++) {
        double at = seconds * i / TICKS, x = LEFT + at * p->scale;
        fprintf(p->out,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"tick\" x=\"%.1f\" y=\"%d\">%.3g "
                "s</text>\n",
                x, x, TOP - 6, TOP + ROWS * ROW, x, TOP + ROWS * ROW + 16, at);
    }
}

braid_err plan_whole_plot(const char *path, const swap_item *item, uint32_t count, const swap_machine *machine,
                          const swap_plan *plan, braid_error *error) {
    FILE *out = fopen(path, "w");
    if (!out) return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
    plot p = {out, 0, (WIDTH - LEFT - RIGHT) / plan->seconds};
    swap_plan copy = *plan;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n", WIDTH,
            TOP + ROWS * ROW + FOOT, WIDTH, TOP + ROWS * ROW + FOOT);
    fputs("<style>text{font:12px "
          "sans-serif;fill:#222}.row{text-anchor:end}.tick,.in{text-anchor:middle}.in{fill:#fff;font-size:11px}line{"
          "stroke:#ccc}"
          ".fore{fill:#2b6cb0}.back{fill:#2c7a7b}.read{fill:#b7791f}.write{fill:#9b2c2c}rect{stroke:#fff;stroke-width:."
          "5}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          out);
    fprintf(out,
            "<text x=\"%d\" y=\"24\">One iteration: %.2f s, of it %.2f s computing (blue: forward, green: backward). "
            "Numbers: sub-models.</text>\n",
            LEFT, plan->seconds, plan->compute_s);
    draw_axes(&p, plan->seconds);
    swap_plan_time(item, count, machine, &copy, draw_step, &p);
    fputs("</svg>\n", out);
    bool failed = ferror(out) != 0;
    if (fclose(out) || failed) return braid_fail(error, BRAID_IO, "cannot write %s; is the disk full?", path);
    return BRAID_OK;
}
