// Changes that a lower part of the protocol reports. events.c, above all parts, handles each of
// them; so a lower part does not know its users. A report is handled before core_report returns.
#ifndef BRAID_PROTOCOL_CORE_CHANGE_H
#define BRAID_PROTOCOL_CORE_CHANGE_H

#include "wire/message.h"

typedef enum core_change_kind {
    CHANGE_LINK_UP,        // `contact`
    CHANGE_LINK_DOWN,      // `contact`; `refused`: no process answers at any address that is known of it
    CHANGE_MEMBERS,        // a member was added or removed
    CHANGE_ADMITTED,       // this peer has become a member
    CHANGE_DISMISSED,      // this peer's membership has ended, for `reason`
    CHANGE_MEMBER_GONE,    // `member`'s has
    CHANGE_MEMBER_DEAD,    // at the leader: the failure detector's verdict on `member`
    CHANGE_HEARTBEAT_DUE,  // to `contact`
    CHANGE_LEADER,         // another leader, or this peer as one, must hear all reports again
    CHANGE_LEADS,          // this peer is elected, and has applied all that is committed
    CHANGE_LEADS_NO_MORE,  // it was the leader of this term
    CHANGE_ENTRY,          // `entry` of the log is applied
    CHANGE_ENTRY_DONE,     // ... and the log position has moved behind it
    CHANGE_SUM,            // the sum of weight gradients here is about to change
    CHANGE_HOME,           // of a run with one stage: the forward pass of microbatch `m` is complete at its owner
    CHANGE_MAY_LAUNCH,     // an owner may have a free slot
} core_change_kind;

typedef struct core_change {
    core_change_kind kind;
    uint32_t contact;
    member_id member;
    uint32_t m;
    bool refused;
    uint8_t reason;
    const log_entry *entry;
} core_change;

struct peer;
typedef void core_change_handler(struct peer *p, const core_change *c);

#endif
