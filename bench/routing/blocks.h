// Memory for many small objects: blocks in size classes, cut from large pieces and reused.
#ifndef BRAID_BENCH_ROUTING_BLOCKS_H
#define BRAID_BENCH_ROUTING_BLOCKS_H

#include <stddef.h>

enum {
    ROUTING_BLOCK_GRAIN = 64,
    ROUTING_BLOCK_MAX = 1024,
    ROUTING_BLOCK_PIECE = 64 * 1024,  // the first pieces; later ones have SIM_HUGE_PAGE
    SIM_HUGE_PAGE = 2 * 1024 * 1024,
};

// Memory to be freed with free(), aligned to ROUTING_BLOCK_GRAIN. Large requests use huge pages
// where the system has them, because random access to half a gigabyte of small pages waits for
// address translation.
void *routing_memory(size_t bytes);

typedef struct routing_block {
    struct routing_block *next;
} routing_block;

typedef struct routing_blocks {
    routing_block *spare[ROUTING_BLOCK_MAX / ROUTING_BLOCK_GRAIN];
    routing_block *piece;  // all pieces, to be freed
    char *fresh;       // free part of the newest piece
    size_t left;  // its size
    size_t bytes;  // total of all pieces
} routing_blocks;

// NULL without memory. 1 <= bytes <= ROUTING_BLOCK_MAX; aligned to ROUTING_BLOCK_GRAIN.
void *routing_blocks_take(routing_blocks *b, size_t bytes);
// `bytes` must be the requested size.
void routing_blocks_give(routing_blocks *b, void *block, size_t bytes);
void routing_blocks_close(routing_blocks *b);

#endif
