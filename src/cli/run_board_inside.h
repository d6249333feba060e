// Shared by the files run_board*.c.
#ifndef BRAID_CLI_RUN_BOARD_INSIDE_H
#define BRAID_CLI_RUN_BOARD_INSIDE_H

#include "cli/run_board.h"
#include "wire/limits.h"

#include <pthread.h>

enum { BOARD_TEXT = 256, BOARD_SUSPECT_ITERATIONS = 2 };

typedef struct board_peer {
    uint64_t member, stage, changes, done, total;
    char peer[REPORT_PEER_DIGITS + 1];
    char role[16];
    bool standby;
    uint32_t suspected;  // iterations until the suspicion is dropped, 0: none
    double since;        // in this state
} board_peer;

// A former member.
typedef struct board_gone {
    uint64_t member, stage;
    char peer[REPORT_PEER_DIGITS + 1];
    char reason[64];
    bool lost;
    double since, suspected;  // of the end, of the first sign of it
    double repaired;          // time of its latest repair, 0: none
} board_gone;

typedef struct board_point {
    uint64_t number, iteration, peers;
    uint64_t ordinal;  // among the points of its kind
    bool held_out;
    double loss, speed, seconds;
} board_point;

typedef struct board_mark {
    uint64_t number, id, iteration, member, count;
    report_kind kind;
    char peer[REPORT_PEER_DIGITS + 1];
    int64_t stage;  // -1: none
    double seconds;
    char text[BOARD_TEXT];
} board_mark;

typedef struct board_wait {
    char blocker[512], waits_for[64];
    double since;  // 0: nothing is missing
} board_wait;

struct run_board {
    pthread_mutex_t lock;                                 // for all below
    double now;                                           // of the newest event
    report_event started, iteration, eval, end, machine;  // the newest; kind REPORT_KINDS: none yet
    report_event checkpoint;
    char ticket[512], leader[REPORT_PEER_DIGITS + 1];
    board_wait unled, awaited, empty;
    double since;  // of "starting", "training" or the end

    board_peer peer[WIRE_MAX_MEMBERS];
    uint32_t peers;
    uint32_t live[WIRE_MAX_STAGES], standby[WIRE_MAX_STAGES];
    board_gone gone[BOARD_MAX_GONE];  // the oldest first
    uint32_t gone_count;

    struct {
        uint64_t tokens, repairs, killed, lost, left, changes, left_out, rollbacks;
        uint64_t recoveries;  // lost members with repaired work
        double recovery_s, longest_recovery_s;
    } total;

    uint64_t next_number, next_id;
    uint64_t ordinal[2], stride;  // of the points
    board_point *point;           // [BOARD_MAX_POINTS]
    board_mark *mark;             // [BOARD_MAX_MARKS]
    uint32_t points, marks;
};

// The state of the whole run, and of a peer. Texts of `text` and of the board.
typedef struct board_record {
    const char *state, *blocker, *waits_for, *next_step;
    double since;
} board_record;
board_record board_run_record(const run_board *b, char text[BOARD_TEXT]);
board_record board_peer_record(const run_board *b, const board_peer *p, char text[BOARD_TEXT]);
double board_seconds_now(void);

#endif
