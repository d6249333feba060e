#include "tensor/reference.h"

#include <math.h>
#include <string.h>

static void norm_statistics(const reference_norm *n, const double *x, double *mean, double *inverse) {
    double sum = 0, square = 0;
    for (size_t i = 0; i < n->dim; i++) sum += x[i];
    *mean = n->centred ? sum / (double)n->dim : 0;
    for (size_t i = 0; i < n->dim; i++) square += (x[i] - *mean) * (x[i] - *mean);
    *inverse = 1 / sqrt(square / (double)n->dim + n->eps);
}

void reference_norm_forward(const reference_norm *n, const double *x, double *y) {
    for (size_t r = 0; r < n->rows; r++, x += n->dim, y += n->dim) {
        double mean, inverse;
        norm_statistics(n, x, &mean, &inverse);
        for (size_t i = 0; i < n->dim; i++)
            y[i] = (x[i] - mean) * inverse * n->weight[i] + (n->centred ? n->bias[i] : 0);
    }
}

// With u = (x - mean) inverse and g = dy weight: dx = inverse (g - mean(g) - u mean(g u)), without
// mean(g) for RMS.
static void norm_gradient_row(const reference_norm *n, const double *x, const double *dy, double *dx, double *d_weight,
                              double *d_bias) {
    double mean, inverse, plain = 0, product = 0;
    norm_statistics(n, x, &mean, &inverse);
    for (size_t i = 0; i < n->dim; i++) {
        double u = (x[i] - mean) * inverse, g = dy[i] * n->weight[i];
        plain += g / (double)n->dim;
        product += g * u / (double)n->dim;
        d_weight[i] += dy[i] * u;
        if (d_bias) d_bias[i] += dy[i];
    }
    for (size_t i = 0; i < n->dim; i++)
        dx[i] = inverse * (dy[i] * n->weight[i] - (n->centred ? plain : 0) - (x[i] - mean) * inverse * product);
}

void reference_norm_gradient(const reference_norm *n, const double *x, const double *dy, double *dx, double *d_weight,
                             double *d_bias) {
    memset(d_weight, 0, n->dim * sizeof *d_weight);
    if (d_bias) memset(d_bias, 0, n->dim * sizeof *d_bias);
    for (size_t r = 0; r < n->rows; r++)
        norm_gradient_row(n, x + r * n->dim, dy + r * n->dim, dx + r * n->dim, d_weight, d_bias);
}

void reference_rope(size_t tokens, size_t heads, size_t width, double theta, bool inverse, double *x) {
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < width / 2; i++) {
                double angle = (double)t * pow(theta, -2.0 * (double)i / (double)width) * (inverse ? -1 : 1);
                double *low = x + (t * heads + h) * width + i, *high = low + width / 2, a = *low, b = *high;
                *low = a * cos(angle) - b * sin(angle);
                *high = b * cos(angle) + a * sin(angle);
            }
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

void reference_swiglu(const double *x, double *y, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < dim; i++) {
            double gate = x[r * 2 * dim + i], up = x[r * 2 * dim + dim + i];
            y[r * dim + i] = gate * logistic(gate) * up;
        }
}

void reference_swiglu_gradient(const double *x, const double *dy, double *dx, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < dim; i++) {
            double gate = x[r * 2 * dim + i], up = x[r * 2 * dim + dim + i], s = logistic(gate), d = dy[r * dim + i];
            dx[r * 2 * dim + i] = d * up * (s + gate * s * (1 - s));
            dx[r * 2 * dim + dim + i] = d * gate * s;
        }
}

static double gelu_inner(double x) { return sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x); }

void reference_gelu(const double *x, double *y, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] = 0.5 * x[i] * (1 + tanh(gelu_inner(x[i])));
}

void reference_gelu_gradient(const double *x, const double *dy, double *dx, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double t = tanh(gelu_inner(x[i])), slope = sqrt(2 / 3.14159265358979323846) * (1 + 3 * 0.044715 * x[i] * x[i]);
        dx[i] = dy[i] * (0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * slope);
    }
}

// Offsets of a query, key and value in qkv[rows, (heads + 2 * kv_heads) * width].
static size_t row_width(const reference_attention *a) { return (a->heads + 2 * a->kv_heads) * a->width; }
static size_t query_at(const reference_attention *a, size_t head, size_t t) {
    return t * row_width(a) + head * a->width;
}
static size_t key_at(const reference_attention *a, size_t head, size_t t) {
    return t * row_width(a) + (a->heads + head / (a->heads / a->kv_heads)) * a->width;
}
static size_t value_at(const reference_attention *a, size_t head, size_t t) {
    return key_at(a, head, t) + a->kv_heads * a->width;
}

static double dot(const double *x, const double *y, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

static void attend_row(const reference_attention *a, const double *qkv, size_t head, size_t t, double *p, double *out) {
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j <= t; j++) {
        p[j] = dot(qkv + query_at(a, head, t), qkv + key_at(a, head, j), a->width) / sqrt((double)a->width);
        most = fmax(most, p[j]);
    }
    for (size_t j = 0; j <= t; j++) sum += p[j] = exp(p[j] - most);
    memset(out, 0, a->width * sizeof *out);
    for (size_t j = 0; j <= t; j++) {
        p[j] /= sum;
        for (size_t i = 0; i < a->width; i++) out[i] += p[j] * qkv[value_at(a, head, j) + i];
    }
}

void reference_attention_forward(const reference_attention *a, const double *qkv, double *out) {
    for (size_t head = 0; head < a->heads; head++)
        for (size_t t = 0; t < a->tokens; t++)
            attend_row(a, qkv, head, t, a->probabilities + (head * a->tokens + t) * a->tokens,
                       out + (t * a->heads + head) * a->width);
}

static void attend_gradient_row(const reference_attention *a, const double *qkv, size_t head, size_t t,
                                const double *d_out, double *d_qkv) {
    const double *p = a->probabilities + (head * a->tokens + t) * a->tokens;
    double mean = 0;
    for (size_t j = 0; j <= t; j++) mean += p[j] * dot(d_out, qkv + value_at(a, head, j), a->width);
    for (size_t j = 0; j <= t; j++) {
        double d_score = p[j] * (dot(d_out, qkv + value_at(a, head, j), a->width) - mean) / sqrt((double)a->width);
        for (size_t i = 0; i < a->width; i++) {
            d_qkv[value_at(a, head, j) + i] += p[j] * d_out[i];
            d_qkv[query_at(a, head, t) + i] += d_score * qkv[key_at(a, head, j) + i];
            d_qkv[key_at(a, head, j) + i] += d_score * qkv[query_at(a, head, t) + i];
        }
    }
}

void reference_attention_gradient(const reference_attention *a, const double *qkv, const double *d_out, double *d_qkv) {
    memset(d_qkv, 0, a->tokens * row_width(a) * sizeof *d_qkv);
    for (size_t head = 0; head < a->heads; head++)
        for (size_t t = 0; t < a->tokens; t++)
            attend_gradient_row(a, qkv, head, t, d_out + (t * a->heads + head) * a->width, d_qkv);
}

void reference_embedding(const tensor_embedding *e, const double *table, const double *positions, double *y) {
    for (size_t r = 0; r < e->rows; r++)
        for (size_t i = 0; i < e->dim; i++)
            y[r * e->dim + i] = table[(size_t)e->tokens[r] * e->dim + i] +
                                (positions ? positions[r % e->sequence * e->dim + i] : 0);
}

void reference_embedding_gradient(const tensor_embedding *e, const double *dy, double *d_table, size_t vocab,
                                  double *d_positions) {
    memset(d_table, 0, vocab * e->dim * sizeof *d_table);
    memset(d_positions, 0, e->sequence * e->dim * sizeof *d_positions);
    for (size_t r = 0; r < e->rows; r++)
        for (size_t i = 0; i < e->dim; i++) {
            d_table[(size_t)e->tokens[r] * e->dim + i] += dy[r * e->dim + i];
            d_positions[r % e->sequence * e->dim + i] += dy[r * e->dim + i];
        }
}

double reference_loss(const double *logits, const int32_t *targets, size_t rows, size_t vocab, double *d_logits) {
    double loss = 0;
    for (size_t r = 0; r < rows; r++, logits += vocab) {
        double most = -INFINITY, sum = 0;
        bool counted = targets[r] >= 0;
        for (size_t i = 0; i < vocab; i++) most = fmax(most, logits[i]);
        for (size_t i = 0; i < vocab; i++) sum += exp(logits[i] - most);
        if (counted) loss += log(sum) + most - logits[targets[r]];
        for (size_t i = 0; d_logits && i < vocab; i++)
            d_logits[r * vocab + i] = counted ? exp(logits[i] - most) / sum - (i == (size_t)targets[r]) : 0;
    }
    return loss;
}
