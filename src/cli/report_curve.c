// Losses as a small picture.
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

static void stretch(curve_scale *scale, const report_curve *curve) {
    for (size_t i = 0; i < curve->count; i++) {
        if (curve->point[i].iteration < scale->first) scale->first = curve->point[i].iteration;
        if (curve->point[i].iteration > scale->last) scale->last = curve->point[i].iteration;
        scale->low = fmin(scale->low, curve->point[i].loss);
        scale->high = fmax(scale->high, curve->point[i].loss);
    }
}

static void plot(char picture[CURVE_ROWS][CURVE_COLUMNS + 1], const curve_scale *scale, const report_curve *curve, char mark) {
    double sum[CURVE_COLUMNS] = {0};
    unsigned count[CURVE_COLUMNS] = {0};
    for (size_t i = 0; i < curve->count; i++) {
        size_t column = (size_t)((double)(curve->point[i].iteration - scale->first) / (double)(scale->last - scale->first) * (CURVE_COLUMNS - 1) + 0.5);
        sum[column] += curve->point[i].loss;
        count[column]++;
    }
    for (size_t x = 0; x < CURVE_COLUMNS; x++) {
        if (count[x] == 0) continue;
        double share = (sum[x] / count[x] - scale->low) / (scale->high - scale->low);
        picture[CURVE_ROWS - 1 - (size_t)(share * (CURVE_ROWS - 1) + 0.5)][x] = mark;
    }
}

void report_loss_curve(report *r) {
    if (r->style == REPORT_JSON || r->style == REPORT_SILENT || r->train.count < 2) return;
    curve_scale scale = {.first = UINT64_MAX, .low = INFINITY, .high = -INFINITY};
    char picture[CURVE_ROWS][CURVE_COLUMNS + 1];
    stretch(&scale, &r->train);
    stretch(&scale, &r->held_out);
    if (scale.first == scale.last) return;
    if (scale.high - scale.low < 1e-9) scale.high = scale.low + 1e-9;
    memset(picture, ' ', sizeof picture);
    plot(picture, &scale, &r->train, '*');
    plot(picture, &scale, &r->held_out, 'o');
    report_erase(r);
    fprintf(r->out, "\n  loss%s\n", r->held_out.count > 0 ? "  (* training, o held out)" : "");
    for (size_t y = 0; y < CURVE_ROWS; y++) {
        picture[y][CURVE_COLUMNS] = 0;
        double value = scale.high - (scale.high - scale.low) * (double)y / (CURVE_ROWS - 1);
        fprintf(r->out, "%8.3f |%s\n", value, picture[y]);
    }
    fprintf(r->out, "         +%.*s\n          %-10llu%*llu  iteration\n\n", CURVE_COLUMNS, "------------------------------------------------------------", (unsigned long long)scale.first,
            CURVE_COLUMNS - 10, (unsigned long long)scale.last);
    fflush(r->out);
}
