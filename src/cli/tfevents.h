// Event files for TensorBoard: scalars by tag and step.
//
// Source: a file is a sequence of records, each a length, the masked CRC-32C of the length, the
// bytes of an Event message (protocol buffers) and their masked CRC-32C. TensorBoard 2.21 reads
// `simple_value`, drops what lies behind a step that goes back, and keeps one value for each tag
// and step.
#ifndef BRAID_CLI_TFEVENTS_H
#define BRAID_CLI_TFEVENTS_H

#include "base/err.h"

#include <stdint.h>

typedef struct tfevents tfevents;

// Creates `directory` if it is missing, and a new file in it. Free with tfevents_close.
braid_err tfevents_open(const char *directory, tfevents **out, braid_error *error);
// Adds one scalar. A value that is not finite is left out.
void tfevents_scalar(tfevents *t, double seconds_since_1970, uint64_t step, const char *tag, double value);
// Writes what was added so far. BRAID_IO or BRAID_FULL: some of it is lost.
braid_err tfevents_flush(tfevents *t, braid_error *error);
// Accepts NULL.
void tfevents_close(tfevents *t);

#endif
