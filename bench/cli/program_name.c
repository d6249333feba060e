#include "cli/cli.h"

const char cli_program_name[] = "braid-bench";
const bool cli_has_baselines = true;
