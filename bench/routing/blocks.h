// Memory for many small things that come and go: blocks in classes of size, cut from large pieces, used again and again.
#ifndef BRAID_BENCH_ROUTING_BLOCKS_H
#define BRAID_BENCH_ROUTING_BLOCKS_H

#include <stddef.h>

enum {
    ROUTING_BLOCK_GRAIN = 64,
    ROUTING_BLOCK_MAX = 1024,
    ROUTING_BLOCK_PIECE = 64 * 1024,  // the first pieces; once there is much, a piece is SIM_HUGE_PAGE
    SIM_HUGE_PAGE = 2 * 1024 * 1024,
};

// Memory to be freed with free(), aligned to ROUTING_BLOCK_GRAIN. Much of it lies in huge pages where the system has them: who
// jumps about in half a gigabyte of small ones waits for their addresses.
void *routing_memory(size_t bytes);

typedef struct routing_block {
    struct routing_block *next;
} routing_block;

typedef struct routing_blocks {
    routing_block *spare[ROUTING_BLOCK_MAX / ROUTING_BLOCK_GRAIN];
    routing_block *piece;  // all pieces, to be freed
    char *fresh;       // of the newest piece
    size_t left;  // of it
    size_t bytes;  // of all pieces
} routing_blocks;

// NULL without memory. 1 <= bytes <= ROUTING_BLOCK_MAX; aligned to ROUTING_BLOCK_GRAIN.
void *routing_blocks_take(routing_blocks *b, size_t bytes);
// `bytes` as it was taken.
void routing_blocks_give(routing_blocks *b, void *block, size_t bytes);
void routing_blocks_close(routing_blocks *b);

#endif
