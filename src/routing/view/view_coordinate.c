// Network coordinates from measured costs (Vivaldi; F. Dabek, R. Cox, F. Kaashoek, R. Morris:
// "Vivaldi: a decentralized network coordinate system", 2004; section 5.4 for the height). Stored
// as integers. The arithmetic uses sums, products, quotients and square roots only, which give the
// same bits everywhere.
#include "routing/view/view_internal.h"

#include <math.h>

static const double QUICK = 0.25;  // c_e and c_c of the paper

static int32_t whole(double x) {
    if (x > VIEW_ANY_COST) return (int32_t)VIEW_ANY_COST;
    if (x < -(double)VIEW_ANY_COST) return -(int32_t)VIEW_ANY_COST;
    return (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
}

static double distance(const view_coordinate *a, const view_coordinate *b) {
    double sum = 0;
    for (int i = 0; i < VIEW_AXES; i++) {
        double d = (double)a->at[i] - (double)b->at[i];
        sum += d * d;
    }
    return sqrt(sum);
}

int64_t view_guess(const view_coordinate *a, const view_coordinate *b) {
    return (int64_t)distance(a, b) + a->height + b->height;
}

// Validates a received coordinate; nothing else enters the arithmetic.
bool view_place_sane(const view_coordinate *place) {
    for (int i = 0; i < VIEW_AXES; i++)
        if (place->at[i] > VIEW_ANY_COST || place->at[i] < -VIEW_ANY_COST) return false;
    return place->height >= 0 && place->height <= VIEW_ANY_COST && place->error <= VIEW_SURE;
}

bool view_place_known(const view_coordinate *place) { return place->error < VIEW_SURE / 2; }

// A first estimate in a random direction: equal coordinates could never separate.
static void settle(view_coordinate *mine, int64_t cost, rng *random) {
    for (int i = 0; i < VIEW_AXES; i++) mine->at[i] = (int32_t)((rng_unit(random) - 0.5) * (double)cost);
    mine->height = (int32_t)(cost / 8) + 1;
}

void view_place_learn(view_coordinate *mine, const view_coordinate *other, int64_t cost, rng *random) {
    if (cost <= 0) return;
    if (mine->height == 0) settle(mine, cost, random);
    if (other->height == 0) return;  // the other peer has no coordinate yet
    double far = distance(mine, other), heights = (double)mine->height + other->height;
    double guess = far + heights, miss = (double)cost - guess;
    double my_error = (double)mine->error / VIEW_SURE, its_error = (double)other->error / VIEW_SURE;
    double weight = my_error + its_error > 0 ? my_error / (my_error + its_error) : 0.5;
    double relative = fabs(miss) / (double)cost;
    if (relative > 1) relative = 1;
    my_error = relative * QUICK * weight + my_error * (1 - QUICK * weight);
    double step = QUICK * weight * miss;
    for (int i = 0; i < VIEW_AXES; i++)
        mine->at[i] = whole(mine->at[i] + step * ((double)mine->at[i] - other->at[i]) / guess);
    mine->height = whole(mine->height + step * heights / guess);
    if (mine->height < 1) mine->height = 1;
    mine->error = (uint16_t)(my_error * VIEW_SURE + 0.5);
}
