// Losses as a small chart.
#include "cli/report_inside.h"

#include <math.h>
#include <string.h>

enum { CURVE_COLUMNS = 60, CURVE_ROWS = 12 };

static void merge_neighbours(report_curve *curve) {
    for (size_t i = 0; i < curve->count / 2; i++) {
        curve->point[i].iteration = curve->point[2 * i + 1].iteration;
        curve->point[i].loss = (curve->point[2 * i].loss + curve->point[2 * i + 1].loss) / 2;
    }
    curve->count /= 2;
    curve->stride *= 2;
}

void report_curve_add(report_curve *curve, uint64_t iteration, double loss) {
    if (!isfinite(loss)) return;
    bool open = curve->count > 0 && curve->pending < curve->stride;
    if (!open && curve->count == REPORT_CURVE_POINTS) merge_neighbours(curve);
    if (!open) {
        curve->point[curve->count].loss = 0;
        curve->pending = 0;
        curve->count++;
    }
    size_t last = curve->count - 1;
    curve->pending++;
    curve->point[last].iteration = iteration;
    curve->point[last].loss += (loss - curve->point[last].loss) / (double)curve->pending;
}

typedef struct curve_scale {
    uint64_t first, last;  // iterations
    double low, high;
} curve_scale;

// Means of a curve's losses, one per column; NAN for a column without losses.
typedef double curve_columns[CURVE_COLUMNS];

static void find_iterations(curve_scale *scale, const report_curve *curve) {
    for (size_t i = 0; i < curve->count; i++) {
        if (curve->point[i].iteration < scale->first) scale->first = curve->point[i].iteration;
        if (curve->point[i].iteration > scale->last) scale->last = curve->point[i].iteration;
    }
}

static void fill_columns(curve_columns columns, curve_scale *scale, const report_curve *curve) {
    unsigned count[CURVE_COLUMNS] = {0};
    for (size_t x = 0; x < CURVE_COLUMNS; x++) columns[x] = NAN;
    for (size_t i = 0; i < curve->count; i++) {
        double share = (double)(curve->point[i].iteration - scale->first) / (double)(scale->last - scale->first);
        size_t x = (size_t)(share * (CURVE_COLUMNS - 1) + 0.5);
        double mean = count[x] == 0 ? 0 : columns[x];
        columns[x] = mean + (curve->point[i].loss - mean) / ++count[x];
    }
    for (size_t x = 0; x < CURVE_COLUMNS; x++) {
        scale->low = fmin(scale->low, columns[x]);
        scale->high = fmax(scale->high, columns[x]);
    }
}

static void plot(char picture[CURVE_ROWS][CURVE_COLUMNS + 1], const curve_scale *scale, const curve_columns columns,
                 char mark) {
    for (size_t x = 0; x < CURVE_COLUMNS; x++) {
        if (isnan(columns[x])) continue;
        double share = (columns[x] - scale->low) / (scale->high - scale->low);
        picture[CURVE_ROWS - 1 - (size_t)(share * (CURVE_ROWS - 1) + 0.5)][x] = mark;
    }
}

static void print_picture(const report *r, char picture[CURVE_ROWS][CURVE_COLUMNS + 1], const curve_scale *scale) {
    char rule[CURVE_COLUMNS + 1] = {0};
    memset(rule, '-', CURVE_COLUMNS);
    fprintf(r->out, "\n  loss%s\n", r->held_out.count > 0 ? "  (* training, o held out)" : "");
    for (size_t y = 0; y < CURVE_ROWS; y++) {
        picture[y][CURVE_COLUMNS] = 0;
        fprintf(r->out, "%8.3f |%s\n", scale->high - (scale->high - scale->low) * (double)y / (CURVE_ROWS - 1),
                picture[y]);
    }
    fprintf(r->out, "         +%s\n          %-10llu%*llu  iteration\n\n", rule, (unsigned long long)scale->first,
            CURVE_COLUMNS - 10, (unsigned long long)scale->last);
}

void report_loss_curve(report *r) {
    if (r->style == REPORT_JSON || r->style == REPORT_SILENT || r->train.count < 2) return;
    curve_scale scale = {.first = UINT64_MAX, .low = INFINITY, .high = -INFINITY};
    curve_columns train, held_out;
    char picture[CURVE_ROWS][CURVE_COLUMNS + 1];
    find_iterations(&scale, &r->train);
    find_iterations(&scale, &r->held_out);
    if (scale.first == scale.last) return;
    fill_columns(train, &scale, &r->train);
    fill_columns(held_out, &scale, &r->held_out);
    if (scale.high - scale.low < 1e-9) scale.high = scale.low + 1e-9;
    memset(picture, ' ', sizeof picture);
    plot(picture, &scale, train, '*');
    plot(picture, &scale, held_out, 'o');
    report_erase(r);
    print_picture(r, picture, &scale);
    fflush(r->out);
}
