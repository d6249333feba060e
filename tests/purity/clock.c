// Planted: a pure room that reads a clock.
#include <stdint.h>
#include <time.h>

int64_t purity_clock(void);

int64_t purity_clock(void) {
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? now.tv_sec : 0;
}
