// Memory that will be needed soon: asked for early it is in the cache by then. A wish; wrong or needless ones cost time only.
#ifndef BRAID_BASE_FORESEE_H
#define BRAID_BASE_FORESEE_H

#include <stddef.h>

static inline void foresee_bytes(const void *of, size_t bytes) {
    enum { LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE) __builtin_prefetch((const char *)of + at);
}

#endif
