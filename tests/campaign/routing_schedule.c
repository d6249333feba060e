// unit_routing_schedule for more seeds.
#define ALL_CASES
#include "../unit/routing_schedule.c"
