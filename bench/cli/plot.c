#include "bench/cli/plot_inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 64, TOP = 64, HEIGHT = 280, GROUP = 132, RIGHT = 24, BOTTOM = 72, NARROWEST = 560 };

// Okabe and Ito's colours, which colour-blind readers can tell apart.
const char *const plot_colours[PLOT_COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};

void plot_put_text(FILE *f, double x, double y, const char *anchor, int size, const char *text) {
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor, size);
    for (; *text != 0; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else
            fputc(*text, f);
    }
    fputs("</text>\n", f);
}

void plot_put_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour) {
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour);
}

// A tick of 1, 2 or 5 times a power of ten, so that PLOT_TICKS of them reach `most`.
double plot_tick_of(double most) {
    if (!(most > 0)) return 1;
    double power = pow(10, floor(log10(most / PLOT_TICKS)));
    const double step[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++)
        if (step[i] * power * PLOT_TICKS >= most) return step[i] * power;
    return 10 * power;
}

static void put_axis(FILE *f, const char *unit, double tick, double width) {
    for (int i = 0; i <= PLOT_TICKS; i++) {
        double y = TOP + HEIGHT - (double)HEIGHT * i / PLOT_TICKS;
        char text[32];
        snprintf(text, sizeof text, "%g", tick * i);
        plot_put_line(f, LEFT, y, LEFT + width, y, i == 0 ? "#000" : "#ddd");
        plot_put_text(f, LEFT - 8, y + 4, "end", 12, text);
    }
    plot_put_text(f, 8, TOP - 12, "start", 12, unit);
}

static void put_bars(FILE *f, const plot_bars *p, double scale) {
    double width = (GROUP - 24.0) / p->series;
    for (uint32_t g = 0; g < p->groups; g++) {
        plot_put_text(f, LEFT + GROUP * (g + 0.5), TOP + HEIGHT + 18, "middle", 12, p->group[g]);
        for (uint32_t s = 0; s < p->series; s++) {
            const plot_bar *b = &p->bar[g * p->series + s];
            if (!b->there) continue;
            double x = LEFT + GROUP * (double)g + 12 + width * s, mean = b->mean * scale, worst = b->worst * scale;
            double base = TOP + HEIGHT, middle = x + width / 2 - 1;
            fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, base - mean,
                    width - 2, mean > 1 ? mean : 1, plot_colours[s % PLOT_COLOURS]);
            plot_put_line(f, middle, base - mean, middle, base - worst, "#000");
            plot_put_line(f, middle - 3, base - worst, middle + 3, base - worst, "#000");
        }
    }
}

static void put_legend(FILE *f, const char *const *name, uint32_t series, const char *note) {
    double x = LEFT;
    for (uint32_t s = 0; s < series; s++) {
        fprintf(f, "<rect x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, TOP + HEIGHT + 34,
                plot_colours[s % PLOT_COLOURS]);
        plot_put_text(f, x + 18, TOP + HEIGHT + 44, "start", 12, name[s]);
        x += 40 + 7.5 * (double)strlen(name[s]);
    }
    plot_put_text(f, LEFT, TOP + HEIGHT + 64, "start", 11, note);
}

FILE *plot_begin(const char *path, double width, double height, const char *title, braid_error *error) {
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
        return NULL;
    }
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height);
    plot_put_text(f, LEFT, 24, "start", 16, title);
    return f;
}

braid_err plot_end(FILE *f, const char *path, braid_error *error) {
    fputs("</svg>\n", f);
    bool good = ferror(f) == 0;
    good &= fclose(f) == 0;
    return good ? BRAID_OK : braid_fail(error, BRAID_IO, "cannot write all of %s: %s", path, strerror(errno));
}

braid_err plot_bars_write(const plot_bars *p, const char *path, braid_error *error) {
    double most = 0, width = (double)GROUP * p->groups;
    if (width < NARROWEST) width = NARROWEST;
    for (uint32_t i = 0; i < p->groups * p->series; i++)
        if (p->bar[i].there && p->bar[i].worst > most) most = p->bar[i].worst;
    double tick = plot_tick_of(most);
    FILE *f = plot_begin(path, LEFT + width + RIGHT, TOP + HEIGHT + BOTTOM, p->title, error);
    if (f == NULL) return BRAID_IO;
    put_axis(f, p->unit, tick, width);
    put_bars(f, p, HEIGHT / (tick * PLOT_TICKS));
    put_legend(f, p->name, p->series, p->note);
    return plot_end(f, path, error);
}
