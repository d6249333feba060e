#include "cli/cli.h"

const char cli_program_name[] = "braid";
const bool cli_has_baselines = false;
