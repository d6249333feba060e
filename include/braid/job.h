// Work that the protocol asks of its host: compute, reduction, state, decisions. The host runs jobs
// one after another and answers each with EVENT_JOB_DONE. The simulator answers with a cost model
// or with the same real kernels.
#ifndef BRAID_JOB_H
#define BRAID_JOB_H

#include "base/id.h"
#include "wire/limits.h"
#include "wire/message.h"

#include <stdbool.h>
#include <stdint.h>

// Bytes held by the host under a number. 0: none.
typedef uint64_t blob_id;

typedef enum job_kind {
    JOB_NONE,
    JOB_FORWARD,      // (iteration, m) -> blob y in stage 0, or blob x -> blob y; fills `slot`
    JOB_LOSS,         // stage 0: blob x from the last stage -> blob dx; loss, tokens, finite
    JOB_BACKWARD,     // blob dy -> blob dx (none in stage 0), on `slot`; with `weigh` JOB_WEIGHT in the same go
    JOB_WEIGHT,       // `slot` -> the stage's sum, or with `minus` out of it again; overflow
    JOB_PACK,         // blocks [first, first + count) of the sum -> blob (lossless)
    JOB_REDUCE,       // own sum and/or packed blobs, in the order of `input`, / tokens -> result blocks
    JOB_RESULT_PUT,   // blob -> result blocks [first, first + count)
    JOB_RESULT_GET,   // result blocks -> blob
    JOB_NORM,         // all result blocks -> root, norm2 per tensor
    JOB_DECIDE,       // leader: norm2 of all -> clip, learning rate, bias corrections, skip
    JOB_APPLY,        // result blocks -> AdamW on the blocks that are at `iteration`; then they are at iteration + 1
    JOB_STATE_ROOT,   // -> root of weights and moments
    JOB_STATE_GET,    // state blocks of `stage` at `version` -> blob (weights, moments, a version each)
    JOB_STATE_PUT,    // blob -> state blocks; versions of what was stored. `named`: only what the names of `version` say
    JOB_STATE_KEEP,   // blocks that lie here already and are what the names of `version` say are at it from now on
    JOB_NAMES_GET,    // -> blob of the names (32-byte hashes) of all blocks of `stage`, at `version`; of its own: as JOB_STATE_ROOT left them
    JOB_NAMES_PUT,    // blob -> names of the blocks at `version`, beside those of the version before; the root of them
    JOB_STATE_INIT,   // fresh weights from the run's seed, or a checkpoint that the host holds; at `version`, whatever was there before
    JOB_LEAVES,       // -> blob of 32-byte hashes of the weights' blocks
    JOB_SUM_CLEAR,    // the sum := 0
    JOB_JOIN,         // `input` blobs, one behind the other -> blob
    JOB_SAVE_NAMES,   // leader: blob of the names of all blocks of `stage` at `version` -> the checkpoint being written; the root of them
    JOB_SAVE,         // leader: blob of state blocks [first, first + count) of `stage` -> the checkpoint being written
    JOB_SAVE_END,     // leader: finishes the checkpoint of `version`; `hash` = weights' hash
    JOB_SAVE_FIND,    // data peers: `failed` unless the host has a checkpoint of `version` and the hash of its weights is `weights`
    JOB_KINDS
} job_kind;

enum { JOB_OWN_SUM = 0 };  // in `input`: the worker's own sum instead of a blob

typedef struct job {
    uint64_t id;       // never 0
    job_kind kind;
    uint64_t iteration;
    uint32_t m;
    uint16_t stage;
    uint32_t slot;
    bool minus, weigh;
    blob_id in;        // borrowed until the job is done
    uint32_t first, count;  // blocks
    uint64_t version;
    uint64_t expected; // JOB_STATE_PUT: the hash64 that its donor gave for the bytes of `in`, 0: none; other bytes are malformed
    bool named;        // JOB_STATE_PUT, JOB_SAVE: malformed, too, unless every block is at `version` and what its name says
    uint64_t tokens;   // JOB_REDUCE, JOB_DECIDE
    bool final;        // JOB_SAVE_END: the run's last checkpoint
    braid_hash weights;  // JOB_SAVE_FIND
    uint32_t inputs;   // JOB_REDUCE, JOB_JOIN
    blob_id input[WIRE_MAX_STAGE_MEMBERS];
    double norm2;      // JOB_DECIDE: of the averaged gradient, all stages
    float clip, learning_rate, bias1, bias2;  // JOB_APPLY
    bool skip;         // JOB_APPLY: only the versions rise; JOB_SAVE_END: it is given up, not finished
} job;

typedef struct job_result {
    uint64_t id;
    job_kind kind;
    bool failed;       // JOB_SAVE, JOB_SAVE_END, JOB_STATE_INIT, JOB_SAVE_FIND: the disk; JOB_STATE_PUT, JOB_NAMES_PUT, JOB_SAVE_NAMES, JOB_RESULT_PUT, JOB_REDUCE: malformed bytes
    bool malformed;    // JOB_SAVE, which has not failed then: others may send it better
    blob_id out;       // the peer's to release
    uint64_t hash64;   // of `out`; JOB_STATE_KEEP: bit i: block first + i was kept
    braid_hash hash;   // JOB_NORM result root, JOB_STATE_ROOT, JOB_NAMES_PUT and JOB_SAVE_NAMES state root, JOB_SAVE_END weights
    uint64_t cost_ns;
    double loss;       // JOB_LOSS: sum over tokens
    uint32_t tokens;
    bool finite;       // JOB_LOSS, JOB_BACKWARD
    bool overflow;     // JOB_WEIGHT: of this microbatch; JOB_NORM: of the sums
    uint32_t norms;    // JOB_NORM
    const double *norm2;  // borrowed during the event
    uint64_t version;  // JOB_STATE_PUT: the version of every stored block; JOB_STATE_INIT: what it is at
    float clip, learning_rate, bias1, bias2;  // JOB_DECIDE
    bool skip;
} job_result;

#endif
