// Events of training in one process as events of a report.
#ifndef BRAID_CLI_SOLO_REPORT_H
#define BRAID_CLI_SOLO_REPORT_H

#include "cli/report.h"
#include "train/solo.h"

// `name`: of the run.
void solo_report_show(report *r, const char *name, const solo_event *event);

#endif
