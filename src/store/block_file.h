// A file of blocks: the tier below memory. It belongs to one process and one owner, and disappears
// when it is closed.
//
// DIR/braid.state begins with a page that names the owner (a run). A file that another owner left
// behind is refused, because its process may be restarted. One that the same owner left behind is
// replaced.
#ifndef BRAID_STORE_BLOCK_FILE_H
#define BRAID_STORE_BLOCK_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_FILE_ALIGNMENT = 4096, BLOCK_FILE_MAX_OWNER = 128, BLOCK_FILE_MAX_PATH = 1024 };

// Fault injection for tests: the n-th read or write of the process fails, counted from 1; 0: none.
typedef struct block_file_faults {
    uint64_t fail_read, fail_write;
    uint64_t stall_read, stall_ns;  // this read takes stall_ns longer
    bool no_direct;                 // as on a file system without direct I/O
} block_file_faults;

typedef struct block_file_config {
    const char *directory;  // created if it does not exist
    const char *owner;      // printable, without line ends
    uint64_t bytes;         // reserved at once
    uint64_t rate;          // limit of reads and writes together, in bytes a second; 0: none
    block_file_faults faults;
} block_file_config;

typedef struct block_file block_file;

// BRAID_STATE: the file is in use or of another owner. BRAID_FULL: no room.
braid_err block_file_open(const block_file_config *config, block_file **out, braid_error *error);
void block_file_close(block_file *f);  // NULL is allowed
const char *block_file_path(const block_file *f);
// False: the file system has no direct I/O, and the page cache holds copies.
bool block_file_direct(const block_file *f);

// Offsets, sizes and addresses are multiples of BLOCK_FILE_ALIGNMENT. Called by several threads.
braid_err block_file_read(block_file *f, uint64_t offset, void *data, size_t bytes, braid_error *error);
braid_err block_file_write(block_file *f, uint64_t offset, const void *data, size_t bytes, braid_error *error);

static inline uint64_t block_file_padded(uint64_t bytes) {
    return (bytes + BLOCK_FILE_ALIGNMENT - 1) / BLOCK_FILE_ALIGNMENT * BLOCK_FILE_ALIGNMENT;
}

#endif
