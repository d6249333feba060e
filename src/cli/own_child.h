// Starts this program once more as a child process: arguments, environment, pipes.
#ifndef BRAID_CLI_OWN_CHILD_H
#define BRAID_CLI_OWN_CHILD_H

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

enum { OWN_CHILD_ARGUMENTS = 48, OWN_CHILD_NUMBERS = 8, OWN_CHILD_NUMBER = 24 };

typedef struct own_child_arguments {
    char *list[OWN_CHILD_ARGUMENTS + 1];
    char numbers[OWN_CHILD_NUMBERS][OWN_CHILD_NUMBER];
    uint32_t count, number_count;
} own_child_arguments;

// Begins with the program and its verb. Texts are borrowed until the child is started.
void own_child_begin(own_child_arguments *a, const char *verb);
void own_child_add(own_child_arguments *a, const char *text);
// Nothing without a value.
void own_child_text(own_child_arguments *a, const char *flag, const char *value);
void own_child_number(own_child_arguments *a, const char *flag, uint64_t value);
// A duration in nanoseconds, 0 included.
void own_child_duration(own_child_arguments *a, const char *flag, uint64_t ns);

typedef struct own_child_pipes {
    int commands;  // writes to its standard input
    int events;    // reads its standard output, without waiting
} own_child_pipes;

// With `pipes` NULL the child has no input, and its output is discarded. The user's environment
// and configuration file apply to the parent only.
braid_err own_child_start(own_child_arguments *a, const char *what, pid_t *pid, own_child_pipes *pipes,
                          braid_error *error);
// Called in the child: makes it end with the parent.
void own_child_bind(void);

#endif
