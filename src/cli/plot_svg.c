// Draws a run as SVG 1.1: losses, tokens a second, peers of each stage, and what happened when.
#include "cli/plot_data.h"
#include "format/quantity.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 960,
    LEFT = 92,
    RIGHT = 24,
    TOP = 64,
    GAP = 44,            // between panels
    MOST_POINTS = 1200,  // of one line; more are averaged
    TICKS = 5,
    MOST_LABEL = 32,
    STAGE_COLORS = 6,
};

typedef struct panel {
    const plot_data *d;
    FILE *out;
    double top, height;
    double low, high;  // of y
} panel;

static const char *const mark_names[PLOT_MARKS] = {
    [PLOT_REPAIR] = "repairs",          [PLOT_KILLED] = "killed",          [PLOT_LOST] = "lost",
    [PLOT_ROLLED_BACK] = "rolled back", [PLOT_CHECKPOINT] = "checkpoints",
};

static double x_of(const plot_data *d, double x) {
    return LEFT + (x - d->first_x) / (d->last_x - d->first_x) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const panel *p, double y) {
    double share = (y - p->low) / (p->high - p->low);
    return p->top + p->height * (1 - fmin(fmax(share, 0), 1));
}

// --- text

// A name comes from a file and must not become markup.
static void put_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else
            fputc(c < ' ' || c == 0x7f ? ' ' : c, out);
    }
}

static void put_text(FILE *out, double x, double y, const char *classes, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, classes);
    put_escaped(out, text);
    fputs("</text>\n", out);
}

// A step of 1, 2 or 5 times a power of ten that gives about TICKS ticks.
static double tick_step(double span) {
    double raw = span / TICKS, power = pow(10, floor(log10(raw))), digit = raw / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void label_of(double value, double step, char label[MOST_LABEL]) {
    if (fabs(value) >= 10000)
        quantity_count_text(value, label);
    else
        snprintf(label, MOST_LABEL, "%.*f", step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0, value);
}

// --- a panel

static void put_frame(const panel *p, const char *title) {
    double step = tick_step(p->high - p->low);
    put_text(p->out, LEFT, p->top - 10, "title", title);
    for (double y = ceil(p->low / step - 1e-9) * step; y <= p->high + 1e-9 * step; y += step) {
        char label[MOST_LABEL];
        label_of(fabs(y) < step / 2 ? 0 : y, step, label);
        fprintf(p->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT, y_of(p, y),
                WIDTH - RIGHT, y_of(p, y));
        put_text(p->out, LEFT - 8, y_of(p, y) + 4, "tick end", label);
    }
}

static void put_x_axis(const plot_data *d, FILE *out, double y) {
    double step = tick_step(d->last_x - d->first_x);
    if (d->axis == PLOT_ITERATIONS && step < 1) step = 1;
    for (double x = ceil(d->first_x / step - 1e-9) * step; x <= d->last_x + 1e-9 * step; x += step) {
        char label[MOST_LABEL];
        label_of(fabs(x) < step / 2 ? 0 : x, step, label);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>\n", x_of(d, x), y,
                x_of(d, x), y + 5);
        put_text(out, x_of(d, x), y + 20, "tick middle", label);
    }
    fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"axis\"/>\n", LEFT, y, WIDTH - RIGHT, y);
    put_text(out, WIDTH - RIGHT, y + 38, "tick end", d->axis == PLOT_TIME ? "seconds" : "iteration");
}

// The mean of `stride` points from `at` on, fewer before a break.
static plot_point mean_of(const plot_series *s, size_t at, size_t stride, size_t *next) {
    plot_point sum = s->point[at];
    size_t i = at + 1;
    for (; i < s->count && i < at + stride && !s->point[i].breaks; i++) sum.x += s->point[i].x, sum.y += s->point[i].y;
    sum.x /= (double)(i - at);
    sum.y /= (double)(i - at);
    *next = i;
    return sum;
}

static void put_line(const panel *p, const plot_series *s, const char *classes) {
    size_t stride = (s->count + MOST_POINTS - 1) / MOST_POINTS, next;
    if (s->count == 0) return;
    fprintf(p->out, "<path class=\"line %s\" d=\"", classes);
    for (size_t i = 0; i < s->count; i = next) {
        plot_point mean = mean_of(s, i, stride, &next);
        fprintf(p->out, "%c%.1f %.2f ", i == 0 || mean.breaks ? 'M' : 'L', x_of(p->d, mean.x), y_of(p, mean.y));
    }
    fputs("\"/>\n", p->out);
}

// The value holds until the next point. Lines of equal values lie beside each other, not on each
// other.
static void put_steps(const panel *p, const plot_series *s, uint32_t place, const char *classes) {
    const plot_data *d = p->d;
    double shift = 1.8 * place;
    if (s->count == 0) return;
    fprintf(p->out, "<path class=\"line %s\" d=\"M%.1f %.2f ", classes, x_of(d, fmax(s->point[0].x, d->first_x)),
            y_of(p, s->point[0].y) - shift);
    for (size_t i = 1; i < s->count; i++)
        fprintf(p->out, "H%.1f V%.2f ", x_of(d, fmin(fmax(s->point[i].x, d->first_x), d->last_x)),
                y_of(p, s->point[i].y) - shift);
    fprintf(p->out, "H%.1f\"/>\n", x_of(d, d->last_x));
}

static void put_dots(const panel *p, const plot_series *s, const char *classes) {
    if (s->count > MOST_POINTS / 4) return;
    for (size_t i = 0; i < s->count; i++)
        fprintf(p->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.2f\" r=\"3\"/>\n", classes, x_of(p->d, s->point[i].x),
                y_of(p, s->point[i].y));
}

static void put_key(const panel *p, int place, const char *classes, const char *text) {
    double x = WIDTH - RIGHT - 120 * (place + 1), y = p->top - 14;
    fprintf(p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"line %s\"/>\n", x, y, x + 18, y,
            classes);
    put_text(p->out, x + 24, y + 4, "tick", text);
}

static void widen(const plot_series *s, panel *p) {
    for (size_t i = 0; i < s->count; i++) {
        p->low = fmin(p->low, s->point[i].y);
        p->high = fmax(p->high, s->point[i].y);
    }
}

static void put_losses(panel p) {
    p.low = INFINITY, p.high = -INFINITY;
    widen(&p.d->loss, &p);
    widen(&p.d->held_out, &p);
    double margin = fmax(0.04 * (p.high - p.low), 1e-6);
    p.low -= margin, p.high += margin;
    put_frame(&p, "Loss");
    put_line(&p, &p.d->loss, "s0");
    put_line(&p, &p.d->held_out, "s1");
    put_dots(&p, &p.d->held_out, "f1");
    put_key(&p, 1, "s0", "training");
    if (p.d->held_out.count) put_key(&p, 0, "s1", "held out");
}

static void put_speed(panel p) {
    p.low = 0, p.high = 1e-9;
    widen(&p.d->speed, &p);
    p.high *= 1.05;
    put_frame(&p, "Tokens a second");
    put_line(&p, &p.d->speed, "s2");
}

static void put_peers(panel p) {
    char classes[8], text[24];
    p.low = 0, p.high = 1;
    for (uint32_t s = 0; s < p.d->stages; s++) widen(&p.d->peers[s], &p);
    p.high += 0.5;
    put_frame(&p, "Peers of each stage");
    for (uint32_t s = 0; s < p.d->stages; s++) {
        snprintf(classes, sizeof classes, "s%u", s % STAGE_COLORS);
        snprintf(text, sizeof text, s ? "stage %u" : "stage %u (data)", s);
        put_steps(&p, &p.d->peers[s], s, classes);
        if (s < STAGE_COLORS)
            put_key(&p, (int)((p.d->stages < STAGE_COLORS ? p.d->stages : STAGE_COLORS) - 1 - s), classes, text);
    }
}

static void put_marks(panel p) {
    double row = p.height / PLOT_MARKS;
    put_text(p.out, LEFT, p.top - 10, "title", "Events");
    for (int k = 0; k < PLOT_MARKS; k++) {
        const plot_series *s = &p.d->mark[k];
        double y = p.top + row * (k + 0.5);
        put_text(p.out, LEFT - 8, y + 4, "tick end", mark_names[k]);
        fprintf(p.out,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n<path class=\"mark m%d\" d=\"",
                LEFT, y, WIDTH - RIGHT, y, k);
        double last = -1;
        for (size_t i = 0; i < s->count; i++) {
            double x = x_of(p.d, fmin(fmax(s->point[i].x, p.d->first_x), p.d->last_x));
            if (fabs(x - last) >= 0.5) fprintf(p.out, "M%.1f %.1fv%.1f ", x, y - row * 0.35, row * 0.7);
            last = x;
        }
        fputs("\"/>\n", p.out);
    }
}

// --- the picture

static const char style[] =
    "<style>\n"
    "svg{--ink:#1f2430;--faint:#d9dde5;--paper:#fff;--c0:#2563c9;--c1:#d1580b;--c2:#12805c;--c3:#8b3fb8;--c4:#b3261e;--"
    "c5:#6b5b1e}\n"
    "@media "
    "(prefers-color-scheme:dark){svg{--ink:#e4e7ee;--faint:#3a404d;--paper:#15181e;--c0:#7ab0ff;--c1:#ff9d57;--c2:#"
    "54d3a4;--c3:#d29bf5;--c4:#ff8a80;--c5:#d8c777}}\n"
    "text{font:12px "
    "system-ui,sans-serif;fill:var(--ink)}.head{font-size:18px;font-weight:600}.title{font-size:13px;font-weight:600}\n"
    ".end{text-anchor:end}.middle{text-anchor:middle}.tick{font-size:11px}.paper{fill:var(--paper)}\n"
    ".grid{stroke:var(--faint);stroke-width:1}.axis{stroke:var(--ink);stroke-width:1}.line{fill:none;stroke-width:1.6;"
    "stroke-linejoin:round}\n"
    ".mark{fill:none;stroke-width:1.5}\n"
    ".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{"
    "stroke:var(--c5)}.f1{fill:var(--c1)}\n"
    ".m0{stroke:var(--c1)}.m1{stroke:var(--c4)}.m2{stroke:var(--c3)}.m3{stroke:var(--ink)}.m4{stroke:var(--c2)}\n"
    "</style>\n";

static void put_head(const plot_data *d, FILE *out, double height) {
    char parameters[QUANTITY_TEXT], text[256];
    quantity_count_text((double)d->parameters, parameters);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "role=\"img\">\n",
            WIDTH, height, WIDTH, height);
    fputs("<title>", out);
    put_escaped(out, *d->name ? d->name : "a run");
    fprintf(out, ": loss, speed, peers and events</title>\n%s<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n",
            style, WIDTH, height);
    snprintf(text, sizeof text, "%s%s%s%siteration %llu of %llu", *d->name ? d->name : "Run", d->parameters ? ", " : "",
             d->parameters ? parameters : "", d->parameters ? " parameters, " : ", ", (unsigned long long)d->iteration,
             (unsigned long long)d->of);
    put_text(out, LEFT, 28, "head", text);
}

void plot_svg(const plot_data *d, FILE *out) {
    static const struct {
        void (*put)(panel p);
        double height;
    } panels[] = {{put_losses, 240}, {put_speed, 120}, {put_peers, 110}, {put_marks, 100}};
    bool swarm = d->stages > 0;
    double y = TOP, height = TOP;
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++)
        if (swarm || panels[i].put != put_peers) height += panels[i].height + GAP;
    put_head(d, out, height + 10);
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
        if (!swarm && panels[i].put == put_peers) continue;
        panels[i].put((panel){.d = d, .out = out, .top = y, .height = panels[i].height});
        y += panels[i].height + GAP;
    }
    put_x_axis(d, out, y - GAP + 4);
    fputs("</svg>\n", out);
}
