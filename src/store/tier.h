// Blocks of a file in a few buffers of memory. A buffer is in use, on its way (read or written), or
// free to be taken for another block. All memory is given at the start; nothing is allocated later.
//
// A shelf is a number of buffers of one size. Each block belongs to one shelf. One thread calls
// these functions; the transfers run in the background (io.h).
#ifndef BRAID_STORE_TIER_H
#define BRAID_STORE_TIER_H

#include "store/io.h"

enum { TIER_MAX_SHELVES = 8, TIER_NONE = UINT32_MAX };

typedef struct tier tier;

// A block of the file, owned by the caller. Initialised by tier_block_at. The caller may change `bytes`
// while it uses the block.
typedef struct tier_block {
    uint64_t offset;
    size_t bytes;            // a multiple of BLOCK_FILE_ALIGNMENT, at most those of a buffer of its shelf
    uint32_t shelf, buffer;  // TIER_NONE: not in memory
} tier_block;

typedef struct tier_shelf {
    size_t bytes;  // of each buffer, a multiple of BLOCK_FILE_ALIGNMENT
    uint32_t buffers;
} tier_shelf;

// The end of a use.
typedef enum tier_end {
    TIER_KEEP,   // unchanged
    TIER_WRITE,  // changed; written at once, in the background
    TIER_DIRTY,  // changed; written only if its buffer is needed
    TIER_DROP,   // not needed any more
} tier_end;

static inline tier_block tier_block_at(uint64_t offset, size_t bytes, uint32_t shelf) {
    return (tier_block){offset, bytes, shelf, TIER_NONE};
}

// `memory` has the buffers of all shelves (tier_memory), aligned to BLOCK_FILE_ALIGNMENT. `io` and
// `memory` are borrowed.
size_t tier_memory(const tier_shelf *shelves, uint32_t count);
braid_err tier_new(const tier_shelf *shelves, uint32_t count, store_io *io, void *memory, tier **out,
                   braid_error *error);
void tier_free(tier *t);  // waits for transfers; NULL is allowed

// Begins a use of the block and returns its data; `fresh`: with any content, else as it is in the
// file. Waits for the block and for a buffer. NULL and `error` after a failed transfer. A shelf must
// have a buffer more than blocks in use.
void *tier_take(tier *t, tier_block *b, bool fresh, braid_error *error);
// The data of a block in use.
void *tier_memory_of(tier *t, const tier_block *b);
void tier_give(tier *t, tier_block *b, tier_end end);
// Forgets a block that is not in use, without writing it.
void tier_discard(tier *t, tier_block *b);
// Starts to read the block if a buffer is free now.
void tier_prefetch(tier *t, tier_block *b);
// The block's data if it is in memory and unchanged since the file has it; NULL otherwise. Valid until
// the next call.
void *tier_cached(tier *t, const tier_block *b);
// Waits until all changes that TIER_WRITE began are in the file.
braid_err tier_settle(tier *t, braid_error *error);
// Forgets what is in memory; no block is in use.
braid_err tier_forget(tier *t, braid_error *error);

#endif
