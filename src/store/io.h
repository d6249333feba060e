// Reads and writes of a block file in the background. A few threads share each large transfer, so
// that several requests are under way at the device.
#ifndef BRAID_STORE_IO_H
#define BRAID_STORE_IO_H

#include "store/block_file.h"

enum { STORE_IO_MAX_THREADS = 16, STORE_IO_PIECE = 1 << 20 };

typedef struct store_io store_io;

// A transfer. The caller owns it and its data until store_io_wait has returned; all zero: none.
typedef struct store_transfer {
    struct store_transfer *next;
    bool write, under_way;
    braid_err failed;
    uint64_t offset;
    uint8_t *data;
    size_t bytes, begun, done;
} store_transfer;

typedef struct store_io_stats {
    uint64_t read_bytes, written_bytes;
    uint64_t waited_ns;  // by callers of store_io_wait
} store_io_stats;

// `note` (or NULL) is called by store_io_wait each time that the device has not answered for slow_ns (0:
// 2 seconds).
typedef struct store_io_host {
    void *context;
    void (*note)(void *context, const char *text);
    uint64_t slow_ns;
} store_io_host;

// `file` is borrowed and outlives the io.
braid_err store_io_new(block_file *file, unsigned threads, store_io_host host, store_io **out, braid_error *error);
void store_io_free(store_io *io);  // finishes transfers that have begun; NULL is allowed

// Starts a transfer that is not under way.
void store_io_start(store_io *io, store_transfer *t, bool write, uint64_t offset, void *data, size_t bytes);
// Returns when it is finished. After a failure each later wait fails, too, with the first error.
braid_err store_io_wait(store_io *io, store_transfer *t, braid_error *error);
// The same, but failures of other transfers do not matter.
braid_err store_io_wait_alone(store_io *io, store_transfer *t, braid_error *error);
bool store_io_finished(store_io *io, const store_transfer *t);
store_io_stats store_io_statistics(store_io *io);

#endif
