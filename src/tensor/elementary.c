#include "tensor/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double ln2 = 0.69314718055994530942;

// first + x (second + x (third + ...))
static double polynomial(const double *coefficients, int count, double x) {
    double sum = coefficients[count - 1];
    for (int i = count - 2; i >= 0; i--) sum = sum * x + coefficients[i];
    return sum;
}

double elementary_log(double x) {
    if (!(x < INFINITY)) return x;  // infinity or NaN
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
    // log m = 2 atanh(s), |s| <= 0.172: the next term is below 1e-17
    static const double odd[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
    double s = (m - 1) / (m + 1);
    return 2 * s * polynomial(odd, sizeof odd / sizeof *odd, s * s) + exponent * ln2;
}

double elementary_exp(double x) {
    double t = x / ln2;
    int n = (int)(t < 0 ? t - 0.5 : t + 0.5);
    const double ln2_high = 0.693147180369123816490,
                 ln2_low = 1.90821492927058770002e-10;  // 32 bits, so that n * high is exact
    double r = x - n * ln2_high - n * ln2_low, sum = 1;
    for (int k = 14; k >= 1; k--) sum = 1 + sum * r / k;  // Taylor, |r| <= 0.35
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

void elementary_sin_cos(double x, double *sine, double *cosine) {
    const double per_half_pi = 0.63661977236758134308;
    // half pi in two parts; high has 33 bits
    const double high = 1.57079632673412561417, low = 6.07710050650619224932e-11;
    // Taylor, |r| <= pi / 4: the next terms are below 1e-16
    static const double sine_terms[] = {1.0,          -1.0 / 6,        1.0 / 120,        -1.0 / 5040,
                                        1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
    static const double cosine_terms[] = {1.0,
                                          -1.0 / 2,
                                          1.0 / 24,
                                          -1.0 / 720,
                                          1.0 / 40320,
                                          -1.0 / 3628800,
                                          1.0 / 479001600,
                                          -1.0 / 87178291200,
                                          1.0 / 20922789888000};
    double t = x * per_half_pi;
    int64_t n = (int64_t)(t < 0 ? t - 0.5 : t + 0.5);
    double r = x - (double)n * high - (double)n * low;
    double s = r * polynomial(sine_terms, sizeof sine_terms / sizeof *sine_terms, r * r);
    double c = polynomial(cosine_terms, sizeof cosine_terms / sizeof *cosine_terms, r * r);
    switch (n & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
    }
}
