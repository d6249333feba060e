// Elementary functions in fp64 made of + - * / and sqrt only, so that their bits are the same on every machine (libm's
// change with its version). Relative error below 1e-14 in the ranges used here.
#ifndef BRAID_TENSOR_ELEMENTARY_H
#define BRAID_TENSOR_ELEMENTARY_H

// x > 0 and normal; infinity and what is not a number come back.
double elementary_log(double x);
// |x| <= 700.
double elementary_exp(double x);
// |x| <= 2^30.
void elementary_sin_cos(double x, double *sine, double *cosine);

#endif
