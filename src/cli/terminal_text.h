// Text of a model on standard output.
#ifndef BRAID_CLI_TERMINAL_TEXT_H
#define BRAID_CLI_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// A terminal would obey control characters, of which a model may produce any; there they become '?'.
void terminal_put_text(const char *text, size_t length, bool terminal);

#endif
