#include "tensor/elementary.h"

#include <stdint.h>
#include <string.h>

static const double ln2 = 0.69314718055994530942;

double elementary_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
    bits = (bits & 0xfffffffffffffu) | ((uint64_t)1023 << 52);
    double m;
    memcpy(&m, &bits, sizeof m);  // [1, 2)
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent++;
    }
    // log m = 2 atanh(s), |s| <= 0.172: fourteen terms reach 1e-18
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 27; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return 2 * s * sum + exponent * ln2;
}

double elementary_exp(double x) {
    double t = x / ln2;
    int n = (int)(t < 0 ? t - 0.5 : t + 0.5);
    const double ln2_high = 0.693147180369123816490, ln2_low = 1.90821492927058770002e-10;  // high: 32 bits, n * high is exact
    double r = x - n * ln2_high - n * ln2_low, sum = 1;
    for (int k = 18; k >= 1; k--) sum = 1 + sum * r / k;
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

void elementary_sin_cos(double x, double *sine, double *cosine) {
    const double half_pi = 1.57079632679489661923;
    const double high = 1.57079632673412561417, low = 6.07710050650619224932e-11;  // half pi; high: 33 bits
    double t = x / half_pi;
    int64_t n = (int64_t)(t < 0 ? t - 0.5 : t + 0.5);
    double r = x - (double)n * high - (double)n * low, square = r * r, s = 1, c = 1;
    for (int k = 20; k >= 2; k -= 2) {  // Taylor, |r| <= pi / 4
        s = 1 - s * square / (k * (k + 1));
        c = 1 - c * square / (k * (k - 1));
    }
    s *= r;
    switch (n & 3) {
        case 0: *sine = s, *cosine = c; break;
        case 1: *sine = c, *cosine = -s; break;
        case 2: *sine = -s, *cosine = -c; break;
        default: *sine = -c, *cosine = s; break;
    }
}
