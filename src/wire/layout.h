// The bytes of each message body on the wire: the fewest and the most. A body has a fixed part and
// the entries behind its counts.
#ifndef BRAID_WIRE_LAYOUT_H
#define BRAID_WIRE_LAYOUT_H

#include "wire/limits.h"

enum {
    LAYOUT_BOOL = 1,
    LAYOUT_U8 = 1,
    LAYOUT_U16 = 2,
    LAYOUT_U32 = 4,
    LAYOUT_U64 = 8,
    LAYOUT_HASH = 32,                            // a peer id, too
    LAYOUT_HEADER = LAYOUT_U8 + 3 * LAYOUT_U64,  // kind; iteration, sender, log position
    LAYOUT_SUBJECT = LAYOUT_U32 + LAYOUT_U16 + LAYOUT_U64,
    LAYOUT_PARCEL = LAYOUT_U32 + LAYOUT_U16,
    LAYOUT_COUNT = LAYOUT_U16,  // of the entries that follow
    LAYOUT_PATH = LAYOUT_COUNT,
    LAYOUT_MOST_PATH = LAYOUT_PATH + WIRE_MAX_STAGES * LAYOUT_U64,
    LAYOUT_SET = LAYOUT_COUNT,
    LAYOUT_MOST_SET = LAYOUT_SET + WIRE_SET_WORDS * LAYOUT_U64,
    LAYOUT_TEXT = LAYOUT_COUNT,
    LAYOUT_MOST_ADDRESS = LAYOUT_TEXT + WIRE_MAX_ADDRESS - 1,
    LAYOUT_AHEAD = 4 * LAYOUT_U32,
    LAYOUT_ROUND = LAYOUT_U16 + 2 * LAYOUT_U64,  // stage, term, round
    LAYOUT_RANGE = 2 * LAYOUT_U32,
    LAYOUT_PART = LAYOUT_U64 + LAYOUT_SET,
    LAYOUT_MOST_PART = LAYOUT_U64 + LAYOUT_MOST_SET,
    LAYOUT_BLOCK_OWNER = LAYOUT_U64 + LAYOUT_RANGE,
    LAYOUT_GET = LAYOUT_U8 + LAYOUT_U16 + LAYOUT_RANGE + LAYOUT_U64,
    // one of set digest and index of CLOSE; round, forwarder; serial
    LAYOUT_MOST_GET = LAYOUT_GET + 3 * LAYOUT_U64 + LAYOUT_U32,
    LAYOUT_ENTRY = 2 * LAYOUT_U64 + LAYOUT_U8,  // index, term; kind
    // FINAL of an iteration that was skipped, with all stages
    LAYOUT_MOST_ENTRY = LAYOUT_ENTRY + 3 * LAYOUT_U64 + 2 * LAYOUT_BOOL + 5 * LAYOUT_U32 + LAYOUT_COUNT +
                        WIRE_MAX_STAGES * (LAYOUT_U64 + 2 * LAYOUT_HASH),
    LAYOUT_BALLOT = 3 * LAYOUT_U64,  // to, from, term
    LAYOUT_ROUTE = 7 * LAYOUT_U32 + LAYOUT_U64 + LAYOUT_COUNT,
    // kind, reason, position, source, epoch, attempts, plan, token, number of words
    LAYOUT_MOST_ROUTE_PART = 2 * LAYOUT_U8 + LAYOUT_U16 + 5 * LAYOUT_U32 + LAYOUT_U64 + LAYOUT_COUNT,
    LAYOUT_MOST_ROUTE = LAYOUT_ROUTE + WIRE_MAX_ROUTE_PARTS * LAYOUT_MOST_ROUTE_PART +
                        WIRE_MAX_ROUTE_WORDS * LAYOUT_U32,
    LAYOUT_PLACE = (WIRE_VIEW_AXES + 1) * LAYOUT_U32 + LAYOUT_U16,
    LAYOUT_CARD = LAYOUT_U32 + LAYOUT_U16 + LAYOUT_PLACE,
    LAYOUT_VIEW = 2 * LAYOUT_U8 + LAYOUT_PLACE,
    // side, by_chance; cost, echo, three rates; descriptors
    LAYOUT_MOST_VIEW = LAYOUT_VIEW + LAYOUT_U8 + LAYOUT_BOOL + 5 * LAYOUT_U32 + LAYOUT_COUNT +
                       WIRE_MAX_VIEW_CARDS * LAYOUT_CARD,
    LAYOUT_LINE = 3 * LAYOUT_U32,
};

// clang-format off
// X(kind, bytes of the fixed part, most bytes of the entries and optional fields)
#define WIRE_LAYOUTS(X)                                                                                                      \
    X(FORWARD, LAYOUT_SUBJECT + LAYOUT_U64 + LAYOUT_U16 + 2 * LAYOUT_BOOL + LAYOUT_U64 + LAYOUT_PARCEL + LAYOUT_PATH + LAYOUT_U32, \
      LAYOUT_MOST_PATH - LAYOUT_PATH + WIRE_MAX_AHEAD * LAYOUT_AHEAD)                                                        \
    X(BACKWARD, LAYOUT_SUBJECT + LAYOUT_U64 + LAYOUT_U16 + LAYOUT_BOOL + LAYOUT_U64 + LAYOUT_PARCEL + LAYOUT_PATH,           \
      LAYOUT_MOST_PATH - LAYOUT_PATH)                                                                                        \
    X(ACCEPT, LAYOUT_SUBJECT + LAYOUT_U8 + LAYOUT_U64, 0)                                                                    \
    X(COMPLETE, LAYOUT_SUBJECT + LAYOUT_U8 + 2 * LAYOUT_U64, 0)                                                              \
    X(DENY, LAYOUT_SUBJECT + 2 * LAYOUT_U8, 0)                                                                               \
    X(DENY_COMMIT, LAYOUT_SUBJECT + LAYOUT_U8 + LAYOUT_U32, 0)                                                               \
    X(DENY_RESUME, LAYOUT_SUBJECT, 0)                                                                                        \
    X(DENY_GET, LAYOUT_U8 + LAYOUT_U16 + LAYOUT_U32 + LAYOUT_U8 + LAYOUT_U32, 0)                                             \
    X(NO_PEER, LAYOUT_SUBJECT, 0)                                                                                            \
    X(EVICTED, LAYOUT_SUBJECT, 0)                                                                                            \
    X(TRACE, LAYOUT_SUBJECT + LAYOUT_U8 + 2 * LAYOUT_U64, 0)                                                                 \
    X(CANCEL, LAYOUT_SUBJECT, 0)                                                                                             \
    X(SUSPECT, LAYOUT_U64 + LAYOUT_BOOL, LAYOUT_SUBJECT + LAYOUT_U8)                                                         \
    X(PROBE, LAYOUT_SUBJECT + LAYOUT_U64, 0)                                                                                 \
    X(STATUS, LAYOUT_SUBJECT + LAYOUT_U64 + 9 * LAYOUT_BOOL + LAYOUT_U32 + LAYOUT_U64, 0)                                    \
    X(RESUME, LAYOUT_SUBJECT + LAYOUT_U64 + LAYOUT_U8 + LAYOUT_U16 + LAYOUT_PATH, LAYOUT_MOST_PATH - LAYOUT_PATH)            \
    X(COMMIT, LAYOUT_SUBJECT + 2 * LAYOUT_U32 + LAYOUT_PATH, LAYOUT_MOST_PATH - LAYOUT_PATH)                                 \
    X(COUNTED, LAYOUT_SUBJECT + LAYOUT_U32 + LAYOUT_BOOL, 0)                                                                 \
    X(SETTLED, LAYOUT_SUBJECT + 2 * LAYOUT_BOOL + LAYOUT_U32 + LAYOUT_U64 + LAYOUT_PATH,                                     \
      LAYOUT_MOST_PATH - LAYOUT_PATH + WIRE_MAX_STAGES * LAYOUT_U32)                                                         \
    X(BEGIN_AGGREGATION, LAYOUT_ROUND + 2 * LAYOUT_U64 + 2 * LAYOUT_COUNT,                                                   \
      WIRE_MAX_STAGE_MEMBERS * (LAYOUT_MOST_PART + LAYOUT_BLOCK_OWNER))                                                      \
    X(MISMATCH, LAYOUT_ROUND + LAYOUT_SET, LAYOUT_MOST_SET - LAYOUT_SET)                                                     \
    X(RESULT, LAYOUT_ROUND + LAYOUT_RANGE, 0)                                                                                \
    X(REDUCED, LAYOUT_ROUND + LAYOUT_BOOL + LAYOUT_HASH + LAYOUT_U32, WIRE_MAX_STAGE_TENSORS * LAYOUT_U64)                   \
    X(STATE, LAYOUT_U16 + LAYOUT_U64 + LAYOUT_HASH, 0)                                                                       \
    X(GET, LAYOUT_GET, LAYOUT_MOST_GET - LAYOUT_GET)                                                                         \
    X(DATA, LAYOUT_GET + LAYOUT_U64, LAYOUT_MOST_GET - LAYOUT_GET)                                                           \
    X(HEARTBEAT, 8 * LAYOUT_U64 + 2 * LAYOUT_U32, 0)                                                                         \
    X(CAN_TAKE, LAYOUT_U64 + LAYOUT_U16 + LAYOUT_U32, 0)                                                                     \
    X(GET_LOG, LAYOUT_U64, 0)                                                                                                \
    X(LOG, LAYOUT_BOOL + LAYOUT_U64 + LAYOUT_ENTRY, LAYOUT_MOST_ENTRY - LAYOUT_ENTRY)                                        \
    X(JOIN, LAYOUT_U8 + LAYOUT_U16 + LAYOUT_U32 + 2 * LAYOUT_U64 + LAYOUT_U16 + LAYOUT_HASH + LAYOUT_TEXT,                   \
      LAYOUT_HASH + LAYOUT_MOST_ADDRESS - LAYOUT_TEXT)                                                                       \
    X(LEAVE, LAYOUT_U8, 0)                                                                                                   \
    X(DISMISS, LAYOUT_U8, 0)                                                                                                 \
    X(ROUTE, LAYOUT_ROUTE, LAYOUT_MOST_ROUTE - LAYOUT_ROUTE)                                                                 \
    X(VIEW, LAYOUT_VIEW, LAYOUT_MOST_VIEW - LAYOUT_VIEW)                                                                     \
    X(SURVEY, LAYOUT_U64, 0)                                                                                                 \
    X(HOLDINGS, LAYOUT_U64 + 5 * LAYOUT_SET, 5 * (LAYOUT_MOST_SET - LAYOUT_SET))                                             \
    X(LINES, LAYOUT_U32, WIRE_MAX_LINES * LAYOUT_LINE)                                                                       \
    X(SOUND, LAYOUT_U32 + 2 * LAYOUT_U16 + LAYOUT_COUNT, WIRE_MAX_SOUND_BYTES)                                               \
    X(SOUNDED, 2 * LAYOUT_U32 + LAYOUT_U64, 0)                                                                               \
    X(CARRY, 2 * LAYOUT_U64 + LAYOUT_U32 + 2 * LAYOUT_U16, 0)                                                                \
    X(CARRY_CHUNKS, 2 * LAYOUT_U64 + LAYOUT_U32 + LAYOUT_U8 + 2 * LAYOUT_U16, 0)                                             \
    X(UNCARRIED, LAYOUT_U32, 0)                                                                                              \
    X(UNCARRIED_CHUNKS, LAYOUT_U32, 0)                                                                                       \
    X(VOTE, LAYOUT_BALLOT + 2 * LAYOUT_BOOL + 2 * LAYOUT_U64, 0)                                                             \
    X(VOTED, LAYOUT_BALLOT + 2 * LAYOUT_BOOL, 0)                                                                             \
    X(APPEND, LAYOUT_BALLOT + 5 * LAYOUT_U64 + LAYOUT_BOOL, LAYOUT_MOST_ENTRY)                                               \
    X(APPENDED, LAYOUT_BALLOT + LAYOUT_BOOL + 2 * LAYOUT_U64, LAYOUT_U64)                                                    \
    X(HAND_OVER, LAYOUT_BALLOT, 0)                                                                                           \
    X(LEADER, LAYOUT_U64 + LAYOUT_HASH + LAYOUT_TEXT, LAYOUT_MOST_ADDRESS - LAYOUT_TEXT)
// clang-format on

enum {
#define X(upper, fixed, variable) \
    LAYOUT_OF_##upper = LAYOUT_HEADER + (fixed), LAYOUT_MOST_OF_##upper = LAYOUT_OF_##upper + (variable),
    WIRE_LAYOUTS(X)
#undef X
};

#define X(upper, fixed, variable) \
    _Static_assert((int)LAYOUT_MOST_OF_##upper <= (int)WIRE_MAX_CONTROL_BYTES, #upper " fits into a control frame");
WIRE_LAYOUTS(X)
#undef X

#endif
