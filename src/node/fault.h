// Fault injection for tests and demonstrations: the process kills itself (SIGKILL) at a chosen
// point of the protocol.
#ifndef BRAID_NODE_FAULT_H
#define BRAID_NODE_FAULT_H

#include "base/err.h"
#include "braid/peer.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_point {
    FAULT_NEVER,
    FAULT_FORWARD,        // a forward is being computed
    FAULT_COMPLETE_SENT,  // COMPLETE(F) was sent to the sender; the output was not yet sent to the next stage
    FAULT_BACKWARD,       // an input gradient is being computed
    FAULT_COMMITTED,      // COMMIT was received, and none of it is done
    FAULT_WEIGHT,         // a weight gradient is being added to the sum
    FAULT_REDUCTION,      // blocks of the sum are being packed or reduced
    FAULT_FINAL,          // FINAL is known and not yet applied
    FAULT_TRANSFER,       // state arrives from a donor
    FAULT_CARRY,          // a piece of another peer's tensor was received, and not yet forwarded
    FAULT_POINTS
} fault_point;

typedef struct fault {
    fault_point point;
    uint32_t count;  // the process dies at this occurrence, counted from 1
} fault;

const char *fault_point_name(fault_point point);
// "POINT" or "POINT:COUNT".
braid_err fault_parse(const char *text, fault *out, braid_error *error);

// The action that this effect or message requires. A fault that is due is consumed.
typedef enum fault_verdict {
    FAULT_GO_ON,
    FAULT_DIE_NOW,
    FAULT_DIE_WHEN_SENT,  // perform the effect, send nothing more, die once it is sent
} fault_verdict;

// `scratch` is a buffer for decoding a message.
fault_verdict fault_at_effect(fault *f, const effect *e, message *scratch);
fault_verdict fault_at_message(fault *f, const message *msg);
_Noreturn void fault_die(void);

#endif
