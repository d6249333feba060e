// unit_routing_staged_plan for more seeds, and its long cases.
#define ALL_CASES
#include "../unit/routing_staged_plan.c"
