// Memory for many small things that come and go: blocks in classes of size, cut from large pieces, used again and again.
#ifndef BRAID_SIM_BLOCKS_H
#define BRAID_SIM_BLOCKS_H

#include <stddef.h>

enum {
    SIM_BLOCK_GRAIN = 64,
    SIM_BLOCK_MAX = 1024,
    SIM_BLOCK_PIECE = 64 * 1024,  // the first pieces; once there is much, a piece is SIM_HUGE_PAGE
    SIM_HUGE_PAGE = 2 * 1024 * 1024,
};

// Memory to be freed with free(), aligned to SIM_BLOCK_GRAIN. Much of it lies in huge pages where the system has them: who
// jumps about in half a gigabyte of small ones waits for their addresses.
void *sim_memory(size_t bytes);

typedef struct sim_block {
    struct sim_block *next;
} sim_block;

typedef struct sim_blocks {
    sim_block *spare[SIM_BLOCK_MAX / SIM_BLOCK_GRAIN];
    sim_block *piece;  // all pieces, to be freed
    char *fresh;       // of the newest piece
    size_t left;  // of it
    size_t bytes;  // of all pieces
} sim_blocks;

// NULL without memory. 1 <= bytes <= SIM_BLOCK_MAX; aligned to SIM_BLOCK_GRAIN.
void *sim_blocks_take(sim_blocks *b, size_t bytes);
// `bytes` as it was taken.
void sim_blocks_give(sim_blocks *b, void *block, size_t bytes);
void sim_blocks_close(sim_blocks *b);

#endif
