// A random campaign: cases until a budget of processor time is used up, and at least so many. A case depends only on the seed
// and on the cases before it, so a longer campaign repeats the shorter one and goes on.
//     BRAID_TEST_SEED=NUMBER          another seed
//     BRAID_CAMPAIGN_SECONDS=SECONDS  another budget for each campaign of the program
// Under sanitizers both the budget and the least number of cases are a fraction.
#ifndef BRAID_TESTS_CAMPAIGN_BUDGET_H
#define BRAID_TESTS_CAMPAIGN_BUDGET_H

#include "seed.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef BRAID_CHECKED
enum { CAMPAIGN_FRACTION = 20 };
static const double campaign_most_seconds = 0.5;
static const bool campaign_is_brief = true;
#else
enum { CAMPAIGN_FRACTION = 1 };
static const double campaign_most_seconds = 1e9;
static const bool campaign_is_brief = false;
#endif

typedef struct campaign {
    rng random;
    const char *name;
    uint32_t cases, at_least;
    double began, seconds;
} campaign;

static inline double campaign_processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline campaign campaign_begin(const char *name, uint64_t usual_seed, double seconds, uint32_t at_least) {
    const char *given = getenv("BRAID_CAMPAIGN_SECONDS");
    if (seconds > campaign_most_seconds) seconds = campaign_most_seconds;
    return (campaign){.random = seeded_rng(name, usual_seed),
                      .name = name,
                      .at_least = 1 + (at_least - 1) / CAMPAIGN_FRACTION,
                      .began = campaign_processor_seconds(),
                      .seconds = given != NULL ? strtod(given, NULL) : seconds};
}

// Whether another case is due; it counts it. The last call prints how many there were.
static inline bool campaign_goes_on(campaign *c) {
    double used = campaign_processor_seconds() - c->began;
    if (c->cases < c->at_least || used < c->seconds) {
        c->cases++;
        return true;
    }
    printf("%s: %u cases in %.1f s of processor time\n", c->name, c->cases, used);
    return false;
}

#endif
