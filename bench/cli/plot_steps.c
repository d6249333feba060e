// Drawings of values over time, as lines of steps.
#include "bench/cli/plot_inside.h"

#include <string.h>

enum { LEFT = 64, TOP = 64, WIDTH = 900, HEIGHT = 200, GAP = 56, RIGHT = 24, BOTTOM = 64 };

static double top_of(uint32_t panel) { return TOP + (double)panel * (HEIGHT + GAP); }

static double most_of(const plot_panel *p) {
    double most = 0;
    for (uint32_t i = 0; i < p->lines; i++)
        for (uint32_t k = 0; k < p->line[i].steps; k++)
            if (p->line[i].step[k].value > most) most = p->line[i].step[k].value;
    return most;
}

static void put_axis(FILE *f, const plot_panel *p, double top, double tick) {
    for (int i = 0; i <= PLOT_TICKS; i++) {
        double y = top + HEIGHT - (double)HEIGHT * i / PLOT_TICKS;
        char text[32];
        snprintf(text, sizeof text, "%g", tick * i);
        plot_put_line(f, LEFT, y, LEFT + WIDTH, y, i == 0 ? "#000" : "#ddd");
        plot_put_text(f, LEFT - 8, y + 4, "end", 12, text);
    }
    plot_put_text(f, 8, top - 12, "start", 12, p->unit);
}

static void put_steps(FILE *f, const plot_line *line, const char *colour, double top, double across, double up) {
    fprintf(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.3\" d=\"", colour);
    for (uint32_t i = 0; i < line->steps; i++) {
        double x = LEFT + line->step[i].at * across, y = top + HEIGHT - line->step[i].value * up;
        if (i == 0)
            fprintf(f, "M%.1f,%.1f", x, y);
        else
            fprintf(f, "H%.1fV%.1f", x, y);
    }
    fprintf(f, "\"/>\n");
}

static void put_panel(FILE *f, const plot_steps *plot, uint32_t number, uint32_t *colour) {
    const plot_panel *p = &plot->panel[number];
    double top = top_of(number), tick = plot_tick_of(most_of(p)), name_x = LEFT + 160;
    put_axis(f, p, top, tick);
    for (uint32_t i = 0; i < p->lines; i++, (*colour)++) {
        const char *paint = plot_colours[*colour % PLOT_COLOURS];
        put_steps(f, &p->line[i], paint, top, WIDTH / plot->end, HEIGHT / (tick * PLOT_TICKS));
        fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", name_x, top - 22, paint);
        plot_put_text(f, name_x + 18, top - 12, "start", 12, p->line[i].name);
        name_x += 44 + 7.5 * (double)strlen(p->line[i].name);
    }
}

static void put_times(FILE *f, const plot_steps *p, double y) {
    double tick = plot_tick_of(p->end);
    for (int i = 0; tick * i <= p->end; i++) {
        char text[32];
        snprintf(text, sizeof text, "%g", tick * i);
        plot_put_text(f, LEFT + tick * i * WIDTH / p->end, y, "middle", 12, text);
    }
    plot_put_text(f, LEFT + WIDTH, y + 16, "end", 12, p->unit);
    plot_put_text(f, LEFT, y + 36, "start", 11, p->note);
}

braid_err plot_steps_write(const plot_steps *p, const char *path, braid_error *error) {
    double bottom = top_of(p->panels - 1) + HEIGHT;
    uint32_t colour = 0;
    FILE *f = plot_begin(path, LEFT + WIDTH + RIGHT, bottom + BOTTOM, p->title, error);
    if (f == NULL) return BRAID_IO;
    for (uint32_t i = 0; i < p->panels; i++) put_panel(f, p, i, &colour);
    put_times(f, p, bottom + 18);
    return plot_end(f, path, error);
}
