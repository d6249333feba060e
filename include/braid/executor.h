// An executor runs the layers of a model on an engine of this machine, or over a chain of peers. It
// has the keys and values of sessions. The scheduler (serve/scheduler.h) has the rest: embedding,
// head, sampler and texts.
//
// Calls return without waiting for the layers, except that an executor of one machine may compute
// in executor_read. One thread calls, that of the scheduler. Results come by the listener, on any
// thread, also before the call that asked for them has returned; a listener only copies and wakes
// its thread. The results of one session come in the order of its calls.
//
// Life of a session. The caller chooses its number and uses it once:
//   begin -> BEGAN | FULL | FAILED
//   read  -> READ | FULL | LOST | FAILED    at most one unanswered call for each session
//   LOST may also come without a call.
// After FULL of a read the session is as before it. After FULL of begin, LOST and FAILED the session
// is closed. No result follows executor_close, except one that is on its way: ignore results of
// numbers that are not open.
#ifndef BRAID_EXECUTOR_H
#define BRAID_EXECUTOR_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct executor executor;

// An adapter of a session, borrowed until the session is closed. Only an executor of one machine has
// them.
typedef struct executor_adapter {
    const struct engine_adapter *weights;
    braid_hash key;  // of its numbers, for the prefix cache
} executor_adapter;

typedef enum executor_outcome {
    EXECUTOR_BEGAN,   // `cached` tokens of the session are read already
    EXECUTOR_READ,    // the step's tokens are part of the session; `x` has the rows that it asked for
    EXECUTOR_FULL,    // no room for keys and values: close another session, or wait for `changed`
    EXECUTOR_LOST,    // the keys and values are gone: begin again and read all tokens
    EXECUTOR_FAILED,  // `error`; reading again does not help
} executor_outcome;

typedef struct executor_result {
    uint64_t session;
    executor_outcome outcome;
    uint32_t cached;           // BEGAN
    uint32_t rows;             // READ
    const float *x;            // [rows, dim] after the last layer, before the final norm; borrowed during the call
    const braid_error *error;  // FAILED: BRAID_MEMORY, BRAID_LIMIT, BRAID_NETWORK; borrowed during the call
} executor_result;

typedef struct executor_listener {
    void *context;
    void (*result)(void *context, const executor_result *result);
    // executor_room_of would give another answer: more room, or another `ready`.
    void (*changed)(void *context);
} executor_listener;

// The next tokens of a session. All arrays are borrowed during the call.
typedef struct executor_step {
    uint64_t session;
    uint32_t first;          // position of the first token: the number of tokens in the session
    uint32_t count;          // 1 to EXECUTOR_MAX_TOKENS
    uint32_t rows;           // the result has the last `rows` <= count rows
    const uint32_t *tokens;  // [count], the names of keys and values in a prefix cache
    const float *x;          // [count, dim], their embeddings
} executor_step;

enum { EXECUTOR_MAX_TOKENS = 256 };  // of one step

typedef struct executor_room {
    uint32_t session_tokens;            // the longest session; if not ready: the model's context
    uint32_t free_tokens;               // that can be read before FULL, if no session ends
    uint32_t page_tokens;               // room is given to sessions in pages of this many tokens
    uint64_t cache_bytes, cache_limit;  // keys and values: in use by sessions and the prefix cache, and the most
    uint64_t scratch_bytes;             // other memory for computing
    bool ready;                         // a token would go through all layers now
    char blocker[128];                  // why not, in words; "" if it would
} executor_room;

typedef struct executor_calls {
    void (*listen)(executor *e, const executor_listener *listener);
    void (*begin)(executor *e, uint64_t session, const executor_adapter *adapts, const uint32_t *tokens,
                  uint32_t count);
    void (*read)(executor *e, const executor_step *steps, uint32_t count);
    void (*supply)(executor *e, uint64_t session, uint32_t first, const float *x, uint32_t count);
    void (*truncate)(executor *e, uint64_t session, uint32_t length);
    void (*close)(executor *e, uint64_t session);
    void (*room)(executor *e, executor_room *out);
    char *(*swarm)(executor *e);
    void (*free)(executor *e);
} executor_calls;

// Implementations begin with this.
struct executor {
    const executor_calls *calls;
};

// Copied. Before any other call.
static inline void executor_listen(executor *e, const executor_listener *listener) { e->calls->listen(e, listener); }
// Opens a session. Of tokens[count], with which it will begin, as many may be taken from a prefix
// cache as the executor has; they are not read again. count may be 0. `adapts` NULL: none.
static inline void executor_begin(executor *e, uint64_t session, const executor_adapter *adapts, const uint32_t *tokens,
                                  uint32_t count) {
    e->calls->begin(e, session, adapts, tokens, count);
}
// Steps of different sessions, the most urgent first: room goes to them in this order.
static inline void executor_read(executor *e, const executor_step *steps, uint32_t count) {
    e->calls->read(e, steps, count);
}
// True if the embeddings of cached tokens are wanted after BEGAN, in order, before the first read.
static inline bool executor_wants_cached(const executor *e) { return e->calls->supply != NULL; }
static inline void executor_supply(executor *e, uint64_t session, uint32_t first, const float *x, uint32_t count) {
    e->calls->supply(e, session, first, x, count);
}
// Forgets the tokens from `length` on, which were read; no call of the session is unanswered.
static inline void executor_truncate(executor *e, uint64_t session, uint32_t length) {
    e->calls->truncate(e, session, length);
}
// Also while a call is unanswered, and of a session that is closed already.
static inline void executor_close(executor *e, uint64_t session) { e->calls->close(e, session); }
static inline void executor_room_of(executor *e, executor_room *out) { e->calls->room(e, out); }
// For service_swarm.
static inline char *executor_swarm(executor *e) { return e->calls->swarm ? e->calls->swarm(e) : NULL; }
// Closes all sessions. The listener is not called during it and afterwards.
static inline void executor_free(executor *e) {
    if (e) e->calls->free(e);
}

#endif
