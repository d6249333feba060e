// The log's copies: storing, committing, catching up.
#ifndef BRAID_PROTOCOL_LOG_LOG_H
#define BRAID_PROTOCOL_LOG_LOG_H

#include "protocol/cluster/cluster.h"

enum {
    PEER_MAX_APPENDS = 80,          // records stored in one step
    PEER_KEPT_APPENDS = 10,         // of these, kept for votes and entries of others
};

// The log entries in memory of a voter; other peers never use it.
typedef struct log_window {
    log_entry append[PEER_MAX_APPENDS];  // of this step's EFFECT_APPENDs
    log_entry entry[RAFT_WINDOW];
} log_window;

typedef struct peer_log {
    uint64_t asked_ns;        // when GET LOG was last sent
    log_window *ring;
    uint32_t step_appends;    // EFFECT_APPENDs in this step
    uint64_t store_until;     // behind this entry the store is begun anew
    uint32_t recall_entries;  // of the state that a store begins with, still to come
    uint64_t recall_position;
    struct {
        uint64_t floor, until_ns;
        uint64_t as_of;       // 0: none comes
        uint32_t from;
    } incoming;                 // a snapshot comes, entry by entry, in place of what was known up to `floor`
} peer_log;

// ---- log.c --------------------------------------------------------------------------------------
bool log_append(peer *p, const log_entry *entry);  // false: too many are under way, try later
uint32_t log_room(const peer *p);                   // how many may be appended now
void log_open(peer *p);
void log_progress(peer *p);                         // after anything that the consensus heard
void log_stored(peer *p, const log_entry *entry);
void log_vote_message(peer *p, uint32_t from, const message *msg);
void on_log(peer *p, uint32_t from, const message *msg);
void on_get_log(peer *p, uint32_t from, const message *msg);
bool log_send_snapshot(peer *p, uint32_t contact_index, uint64_t until);
void log_send_addresses(peer *p, uint32_t contact_index);  // of the voters
void log_send_from(peer *p, uint32_t contact_index, uint64_t from);
void log_tick(peer *p);
void log_compare(peer *p, uint64_t newest);  // the leader says that its log goes so far

#endif
