// The replicated state of the run.
#include "protocol/internal.h"

bool run_is_complete(const peer *p) { return p->end_index != 0 || (p->has_final && p->final.u.final.last); }

bool run_goes_on(const peer *p) { return p->run_started && !run_is_complete(p); }
