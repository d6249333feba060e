// The maximum of every length and count that a peer can send.
#ifndef BRAID_WIRE_LIMITS_H
#define BRAID_WIRE_LIMITS_H

#include <stdint.h>

enum {
    WIRE_VERSION = 18,
    WIRE_MAX_STAGES = 64,
    WIRE_MAX_MICROBATCHES = 1024,            // planned in one iteration
    WIRE_SET_WORDS = WIRE_MAX_MICROBATCHES / 64,
    WIRE_MAX_STAGE_MEMBERS = 64,             // live members of one stage
    WIRE_MAX_MEMBERS = 512,                  // live members of a run
    WIRE_MAX_STAGE_TENSORS = 1024,           // parameter tensors of one stage
    WIRE_MAX_VOTERS = 8,                     // in the log: five, and those being added or removed
    WIRE_MAX_SLOTS = 64,                     // slots of a run
    WIRE_MAX_ADDRESS = 128,                  // bytes of "host:port"
    WIRE_MAX_ROUTE_PARTS = 64,               // router messages in one ROUTE
    WIRE_MAX_ROUTE_WORDS = 960,              // of all parts of one ROUTE: eight of the longest labels
    WIRE_MAX_ROUTE_UNITS = 4096,             // units of flow over one link
    WIRE_VIEW_AXES = 3,                      // axes of a network coordinate, besides its height
    WIRE_MAX_VIEW_CARDS = 8,                 // descriptors in one VIEW
    WIRE_MAX_LINES = 64,                     // links in one LINES
    WIRE_MAX_SOUND_BYTES = 16 * 1024,        // zero bytes in one probe packet (SOUND)
    WIRE_MAX_PIECES = 16,                    // pieces of a forwarded tensor
    WIRE_MAX_CARRIED_BLOCKS = 8,             // chunks of a reduction in one CARRY
    WIRE_CARRIED_BLOCK_BYTES = 9 << 16,      // the largest of those: 2^16 elements of 8 bytes, and their widths
    WIRE_MAX_AHEAD = 16,                     // members of the planned route in a FORWARD
    WIRE_MAX_CONTROL_BYTES = 64 * 1024,      // one encoded message without its payload
    WIRE_MAX_PAYLOAD_BYTES = 1 << 30,        // one tensor
    WIRE_MAX_LOG_ENTRIES_PER_GET = 256,
    WIRE_MAX_DESCRIPTION_BYTES = 32 * 1024,  // the run's description
    WIRE_MAX_SOFTWARE = 64,                  // bytes of a program's name and version
    WIRE_MAX_SENTENCE = 512,                 // bytes of the sentence that explains a refusal
    WIRE_MAX_TRANSFERS = 4,                  // concurrent payloads in one direction of a link
    WIRE_MAX_CHUNK_BYTES = 16 * 1024 - 8,    // bytes of payload in one frame; with its header a full TLS record
};

#define WIRE_MAX_TERM ((uint64_t)UINT32_MAX)     // one election per second for 136 years
#define WIRE_MAX_LINK_COST  ((uint32_t)1 << 30)  // microseconds; also bounds network coordinates
#define WIRE_MAX_ROUTE_COST ((int64_t)1 << 58)  // cost of a residual path, either sign

#endif
