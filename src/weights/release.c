// Memory of a mapped file that a process no longer reads.
#include "weights/inside.h"

#include <sys/mman.h>
#include <unistd.h>

// The pages that lie wholly inside the range; a range of another file is none of this one.
static void release_in(const mapped *m, const uint8_t *at, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!m->at || at < m->at || bytes > m->bytes || (size_t)(at - m->at) > m->bytes - bytes) return;
    size_t begin = ((size_t)(at - m->at) + page - 1) / page * page, end = ((size_t)(at - m->at) + bytes) / page * page;
    if (begin < end) madvise((void *)(uintptr_t)(m->at + begin), end - begin, MADV_DONTNEED);
}

void model_file_release(const model_file *f, const void *at, size_t bytes) {
    for (uint32_t i = 0; i < f->shards; i++) release_in(&f->map[i], at, bytes);
}
