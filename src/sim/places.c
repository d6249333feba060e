#include "sim/places.h"

#include "base/err.h"

enum {
    PLACES = 10,
    // Assumed values, not in the table: a short distance, and twice the bandwidth of the best pair.
    INSIDE_LATENCY_MS = 1,
    INSIDE_MBPS = 2320,
    SLOWEST_MBPS = 326,  // slowest and fastest pair of the table
    FASTEST_MBPS = 1160,
};

static const char *const names[PLACES] = {"Oregon",    "Virginia", "Ohio",   "Tokyo",     "Seoul",
                                          "Singapore", "Sydney",   "London", "Frankfurt", "Ireland"};

// Measured between regions of a cloud (Yuan et al., DT-FM, 2022); each row ends before the
// diagonal.
static const uint16_t latency_ms[PLACES][PLACES - 1] = {
    {0},
    {67},
    {49, 11},
    {96, 143, 130},
    {124, 172, 159, 34},
    {163, 230, 197, 73, 74},
    {139, 197, 185, 100, 148, 92},
    {136, 76, 86, 210, 238, 169, 262},
    {143, 90, 99, 223, 235, 155, 265, 14},
    {124, 67, 77, 199, 228, 179, 254, 12, 24},
};

static const uint16_t bandwidth_mbps[PLACES][PLACES - 1] = {
    {0},
    {790},
    {1100, 1120},
    {523, 524, 694},
    {460, 500, 529, 1100},
    {341, 364, 452, 1010, 1140},
    {360, 383, 484, 761, 580, 816},
    {420, 1160, 1050, 366, 342, 500, 326},
    {404, 1020, 799, 360, 358, 535, 328, 1140},
    {482, 1050, 1140, 465, 335, 492, 344, 1090, 1080},
};

static uint16_t look_up(const uint16_t table[PLACES][PLACES - 1], uint32_t a, uint32_t b) {
    BRAID_ASSERT(a < PLACES && b < PLACES && a != b);
    return a > b ? table[a][b] : table[b][a];
}

uint32_t place_count(void) { return PLACES; }

const char *place_name(uint32_t place) {
    BRAID_ASSERT(place < PLACES);
    return names[place];
}

int64_t place_latency_ns(uint32_t a, uint32_t b) {
    return (int64_t)1000000 * (a == b ? INSIDE_LATENCY_MS : look_up(latency_ms, a, b));
}

int64_t place_bandwidth_bps(uint32_t a, uint32_t b) {
    return (int64_t)1000000 * (a == b ? INSIDE_MBPS : look_up(bandwidth_mbps, a, b));
}

int64_t place_scaled_bps(uint32_t a, uint32_t b, int64_t low, int64_t high) {
    if (a == b) return high;
    int64_t above = look_up(bandwidth_mbps, a, b) - SLOWEST_MBPS;
    return low + (high - low) * above / (FASTEST_MBPS - SLOWEST_MBPS);
}
