// The timeline of a plan for swapping as SVG: computing, reading, writing.
#ifndef BRAID_CLI_PLAN_WHOLE_PLOT_H
#define BRAID_CLI_PLAN_WHOLE_PLOT_H

#include "plan/swap.h"

braid_err plan_whole_plot(const char *path, const swap_item *item, uint32_t count, const swap_machine *machine,
                          const swap_plan *plan, braid_error *error);

#endif
