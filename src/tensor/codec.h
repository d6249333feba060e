// Codecs of the tensors that travel between stages: activations and their gradients in fewer bytes.
//
// The receiver computes with the decoded values, and so does a process that holds both stages
// (tensor_codec_round). All steps are exact or rounded as IEEE 754 says, so every machine has the
// same bits. Any bytes can be decoded; those of a block that held NaN or infinity become NaN.
//
// Blockwise quantisation: Nesa's BSNS, section 4.1; Petals and SWARM send 8 bits the same way.
#ifndef BRAID_TENSOR_CODEC_H
#define BRAID_TENSOR_CODEC_H

#include "tensor/pool.h"

#include <stddef.h>
#include <stdint.h>

typedef enum tensor_codec {
    CODEC_FP32,
    CODEC_BF16,  // rounded to nearest, ties to even
    CODEC_INT8,  // blocks of 64: an fp32 scale, and integers from -127 to 127
    CODEC_INT4,  // blocks of 64: the largest value apart in fp32, an fp32 scale, and integers from -7 to 7
    TENSOR_CODECS
} tensor_codec;

// Codecs of activations and of their gradients between two stages.
typedef struct tensor_links {
    tensor_codec forward, backward;
} tensor_links;

enum {
    CODEC_BLOCK = 64,  // values that share a scale
};

// "fp32", "bf16", "int8", "int4"
extern const char *const tensor_codec_names[TENSOR_CODECS];

// Bytes of `count` encoded values, a multiple of 4.
size_t tensor_codec_bytes(tensor_codec codec, size_t count);
// out[tensor_codec_bytes] = x[count]. Both are aligned to 4 bytes and do not overlap.
void tensor_codec_encode(tensor_pool *pool, tensor_codec codec, const float *x, size_t count, void *out);
// out[count] = the decoded values of in[tensor_codec_bytes].
void tensor_codec_decode(tensor_pool *pool, tensor_codec codec, const void *in, size_t count, float *out);
// x[count] = the values that a receiver of x decodes.
void tensor_codec_round(tensor_pool *pool, tensor_codec codec, float *x, size_t count);

#endif
