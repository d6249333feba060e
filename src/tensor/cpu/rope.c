#include "tensor/cpu/wide.h"
#include "tensor/elementary.h"
#include "tensor/kernels.h"

void tensor_rope_table(size_t tokens, size_t half, size_t pair, double rate, double scale, float *cosines,
                       float *sines) {
    for (size_t t = 0; t < tokens; t++) {
        double sine, cosine;
        elementary_sin_cos((double)t * rate, &sine, &cosine);
        cosines[t * half + pair] = (float)(cosine * scale);
        sines[t * half + pair] = (float)(sine * scale);
    }
}

double tensor_rope_rate(size_t pair, size_t width, float theta) {
    return elementary_exp(-2.0 * (double)pair / (double)width * elementary_log((double)theta));
}

void tensor_rope_tables(size_t tokens, size_t width, float theta, float *cosines, float *sines) {
    for (size_t i = 0; i < width / 2; i++)
        tensor_rope_table(tokens, width / 2, i, tensor_rope_rate(i, width, theta), 1, cosines, sines);
}

TENSOR_WIDE
static void rotate_rows(const float *restrict from, size_t from_stride, float *restrict to, size_t to_stride,
                        size_t rows, size_t half, const float *restrict cosines, const float *restrict sines,
                        float sign) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < half; i++) {
            float a = from[i], b = from[half + i], c = cosines[i], s = sign * sines[i];
            to[i] = a * c - b * s;
            to[half + i] = b * c + a * s;
        }
        from += from_stride, to += to_stride;
        cosines += half, sines += half;
    }
}

void tensor_rope_rows(const tensor_rope *r, size_t first, size_t rows, bool inverse, const float *from,
                      size_t from_stride, float *to, size_t to_stride) {
    size_t half = r->width / 2;
    rotate_rows(from, from_stride, to, to_stride, rows, half, r->cosines + first * half, r->sines + first * half,
                inverse ? -1.0f : 1.0f);
}
