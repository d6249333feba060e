#include "bench/routing/blocks.h"

#include "base/err.h"

#include <stdlib.h>
#include <sys/mman.h>

void *routing_memory(size_t bytes) {
    size_t align = bytes >= SIM_HUGE_PAGE ? SIM_HUGE_PAGE : ROUTING_BLOCK_GRAIN;
    bytes = (bytes + align - 1) / align * align;
    void *memory = aligned_alloc(align, bytes);
    // a hint that may fail
    if (memory != NULL && align == SIM_HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static size_t class_of(size_t bytes) { return (bytes - 1) / ROUTING_BLOCK_GRAIN; }

static void *cut(routing_blocks *b, size_t bytes) {
    if (b->left < bytes) {
        size_t size = b->bytes < SIM_HUGE_PAGE ? ROUTING_BLOCK_PIECE : SIM_HUGE_PAGE;
        char *piece = routing_memory(size);
        if (piece == NULL) return NULL;
        ((routing_block *)(void *)piece)->next = b->piece;
        b->piece = (routing_block *)(void *)piece;
        b->fresh = piece + ROUTING_BLOCK_GRAIN;
        b->left = size - ROUTING_BLOCK_GRAIN;
        b->bytes += size;
    }
    void *block = b->fresh;
    b->fresh += bytes;
    b->left -= bytes;
    return block;
}

void *routing_blocks_take(routing_blocks *b, size_t bytes) {
    BRAID_ASSERT(bytes >= 1 && bytes <= ROUTING_BLOCK_MAX);
    size_t class = class_of(bytes);
    routing_block *block = b->spare[class];
    if (block == NULL) return cut(b, (class + 1) * ROUTING_BLOCK_GRAIN);
    b->spare[class] = block->next;
    return block;
}

void routing_blocks_give(routing_blocks *b, void *block, size_t bytes) {
    routing_block *spare = block;
    spare->next = b->spare[class_of(bytes)];
    b->spare[class_of(bytes)] = spare;
}

void routing_blocks_close(routing_blocks *b) {
    while (b->piece != NULL) {
        routing_block *piece = b->piece;
        b->piece = piece->next;
        free(piece);
    }
    *b = (routing_blocks){0};
}
