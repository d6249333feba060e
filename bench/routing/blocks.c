#include "sim/blocks.h"

#include "base/err.h"

#include <stdlib.h>
#include <sys/mman.h>

void *sim_memory(size_t bytes) {
    size_t align = bytes >= SIM_HUGE_PAGE ? SIM_HUGE_PAGE : SIM_BLOCK_GRAIN;
    bytes = (bytes + align - 1) / align * align;
    void *memory = aligned_alloc(align, bytes);
    if (memory != NULL && align == SIM_HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish, not a need
    return memory;
}

static size_t class_of(size_t bytes) { return (bytes - 1) / SIM_BLOCK_GRAIN; }

static void *cut(sim_blocks *b, size_t bytes) {
    if (b->left < bytes) {
        size_t size = b->bytes < SIM_HUGE_PAGE ? SIM_BLOCK_PIECE : SIM_HUGE_PAGE;
        char *piece = sim_memory(size);
        if (piece == NULL) return NULL;
        ((sim_block *)(void *)piece)->next = b->piece;
        b->piece = (sim_block *)(void *)piece;
        b->fresh = piece + SIM_BLOCK_GRAIN;
        b->left = size - SIM_BLOCK_GRAIN;
        b->bytes += size;
    }
    void *block = b->fresh;
    b->fresh += bytes;
    b->left -= bytes;
    return block;
}

void *sim_blocks_take(sim_blocks *b, size_t bytes) {
    BRAID_ASSERT(bytes >= 1 && bytes <= SIM_BLOCK_MAX);
    size_t class = class_of(bytes);
    sim_block *block = b->spare[class];
    if (block == NULL) return cut(b, (class + 1) * SIM_BLOCK_GRAIN);
    b->spare[class] = block->next;
    return block;
}

void sim_blocks_give(sim_blocks *b, void *block, size_t bytes) {
    sim_block *spare = block;
    spare->next = b->spare[class_of(bytes)];
    b->spare[class_of(bytes)] = spare;
}

void sim_blocks_close(sim_blocks *b) {
    while (b->piece != NULL) {
        sim_block *piece = b->piece;
        b->piece = piece->next;
        free(piece);
    }
    *b = (sim_blocks){0};
}
