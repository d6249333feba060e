// Elementary functions in fp64 that use only + - * / and sqrt, so that their bits are the same on
// every machine (those of libm change with its version). Relative error below 1e-14 in the ranges
// used here.
#ifndef BRAID_TENSOR_ELEMENTARY_H
#define BRAID_TENSOR_ELEMENTARY_H

// x > 0 and normal; infinity and NaN are returned unchanged.
double elementary_log(double x);
// |x| <= 700.
double elementary_exp(double x);
// |x| <= 2^30.
void elementary_sin_cos(double x, double *sine, double *cosine);

#endif
