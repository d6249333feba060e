// Contacts and the links to them, members, and the leader as this peer knows it.
#ifndef BRAID_PROTOCOL_CLUSTER_CLUSTER_H
#define BRAID_PROTOCOL_CLUSTER_CLUSTER_H

#include "protocol/core/core.h"

enum {
    PEER_CONTACT_BLOCK = 4,         // contacts that are looked at together
    PEER_CONTACT_BLOCKS = (PEER_MAX_CONTACTS + PEER_CONTACT_BLOCK - 1) / PEER_CONTACT_BLOCK,
    PEER_CONTACT_HINTS = 1024,      // a power of two
    PEER_KEPT_FORMER = 64,
};

typedef enum link_state { LINK_NONE, LINK_DIALING, LINK_UP } link_state;

// A peer that this one knows. After a change of its member, its link or a time that contacts_tick
// reads, call contact_touch.
// At the leader: what a peer that it admits asked for, and its stage.
typedef struct cluster_joiner {
    bool may_move;  // it asked for no certain stage
    uint8_t kind;
    uint16_t stage;
    uint32_t capacity;
} cluster_joiner;

typedef struct cluster_contact {
    // read by most steps, close together
    bool used;
    bool joining;       // leader: its MEMBER entry is being appended
    bool departing;     // leader: it has asked to leave
    bool untold;        // its membership has ended: it may not know the present leader, and must be told
    bool itself;        // the process at the other end has sent a message as `member`: it is not a later incarnation
    bool log_known;
    link_state link;
    member_id member;   // its live member, 0: none
    braid_id id;
    uint64_t sent_ns, beat_sent_ns;
    timing_link timing;
    uint64_t up_ns;         // when its newest link came
    uint64_t down_ns;       // since when there is no link
    uint64_t refused_ns;    // since when every dial is refused, 0: the newest was not
    bool moved;             // its address has changed and was not dialled yet
    bool turn_elsewhere;    // the next dial is to `elsewhere`
    bool was_refused;       // the dial before
    char elsewhere[WIRE_MAX_ADDRESS];  // a second address, from the user or other peers; dialled in turn with `address`
    uint64_t redial_ns, redial_delay_ns;
    uint64_t admitted_ns;   // when it became a member
    uint64_t asks_in_ns;    // when it last sent JOIN here, though this peer does not lead; 0: never
    uint64_t log_position;  // leader: the position that it has applied, once log_known
    uint64_t log_sent_ns;
    uint64_t progress_ns;       // when its heartbeat last showed progress
    message_heartbeat beat;
    uint64_t beat_position;     // its log position in that heartbeat; 0: none came on this link
    uint32_t links;         // number of links with it so far
    uint64_t incarnation;  // of the process that was admitted
    braid_id host;         // of a relay or standby: the peer on the same machine
    uint64_t store;        // its durable log, were it a voter
    cluster_joiner joiner;
    struct {                // as a source of state
        uint64_t rest_ns;   // not asked before then
        uint64_t block_ns;  // smoothed time of a block, 0: not measured
        uint64_t came_ns;   // when its last bytes came
        bool paced;         // it limits its rate: it is asked for one chunk at a time
        bool corrupt;       // sent state with a wrong hash
    } source;
    uint64_t attested_ns, attested_version;  // leader: when the hash of its stage's state was last attested to it, and at which version
    char address[WIRE_MAX_ADDRESS];   // newest known address
    char entered[WIRE_MAX_ADDRESS];   // the address in its MEMBER entry
} cluster_contact;

// PEER_CONTACT_BLOCK contacts: contacts_tick skips them before `due_ns`; the peer must wake at
// `wake_ns`.
typedef struct contact_block {
    uint64_t due_ns, wake_ns;
} contact_block;

typedef struct cluster_member {
    member_id id;
    uint32_t contact;    // NO_CONTACT: this peer itself
    uint16_t stage;      // the stage that it works for; NO_STAGE: it is a standby
    uint16_t keeps;      // the stage of the state that it keeps
    uint64_t promoted;   // index of its PROMOTE entry; 0: none
    uint8_t kind;
    uint32_t capacity;
    bool expelling;      // leader: its EXPEL is being appended
    bool was_ready;      // it has reported its state complete; it may be applying a result now
} cluster_member;

// A process after the end of its membership. It keeps the state of its stage as long as it lives
// (rule J7).
typedef struct former_member {
    uint64_t incarnation;
    uint16_t stage;
} former_member;

// The leader, as far as this peer knows.
typedef struct known_leader {
    bool heard;         // it has said itself that it leads in this term
    uint64_t term;
    braid_id id;
    uint64_t looked_ns; // when it was last seen to that all voters are known
    uint64_t asked_ns;  // when a member was last asked for the leader
    uint32_t asked;     // how many of them
    uint64_t miss_ns;   // when the user is told which voters are missing, unless a leader is elected by then
    uint64_t unknown_since_ns;  // since when only unknown peers speak as leaders; 0: a known one may lead
    uint64_t shutdown_position;    // newest entry that an unknown peer had read when it said that the run is over. A peer that has read more does not believe it
} known_leader;

typedef struct peer_cluster {
    cluster_contact *contacts;      // [PEER_MAX_CONTACTS]
    uint32_t contact_high;  // all used ones lie below
    contact_block contact_block[PEER_CONTACT_BLOCKS];
    uint16_t contact_at[PEER_CONTACT_HINTS];  // hash table of ids: 1 + index of the contact, 0: none
    cluster_member *members;        // [WIRE_MAX_MEMBERS], ascending id
    uint32_t member_count;
    former_member former[PEER_KEPT_FORMER];  // a ring
    uint32_t next_former;
    known_leader lead;
    bool leads;             // this peer is the leader
    uint64_t own_term;      // ... of this term, or was last
    bool admitted;          // ... and the MEMBER entry of its admission is not committed yet
    bool hears_most;        // ... and which hears most of the other members: the rest are unresponsive by their own fault
    uint64_t join_sent_ns;
    uint64_t join_floor;    // this peer's MEMBER entries up to here do not count any more
    bool alone_told;        // that it alone has its stage's state, since it was asked to leave
    bool rejoin_first;      // it leaves, and its membership was discarded when a snapshot replaced the log: it joins again first, so that its state stays available
} peer_cluster;

// ---- outbox.c -----------------------------------------------------------------------------------
// Sends p->core.scratch. False: there is no link. A message that must arrive is sent again later.
bool peer_send(peer *p, uint32_t contact_index, blob_id blob);
bool peer_send_member(peer *p, member_id to, blob_id blob);
bool peer_send_part(peer *p, member_id to, blob_id blob, uint64_t offset, uint64_t bytes);
bool peer_send_leader(peer *p);
bool peer_is_leader(const peer *p);

// ---- contacts.c ---------------------------------------------------------------------------------
uint32_t contact_find(const peer *p, const braid_id *id);
void contact_may_be_at(peer *p, const braid_id *id, const char *address);  // an address from another peer, which may be outdated
uint32_t contact_add(peer *p, const braid_id *id, const char *address);  // NO_CONTACT: full
void contacts_add_named(peer *p);  // peers that the user named
bool contact_is_named(const peer *p, const braid_id *id);
void contact_up(peer *p, const braid_id *id);
void contact_down(peer *p, const braid_id *id, bool refused);
void contact_dial(peer *p, uint32_t index);
// How long a silent contact is waited for: `grace_ns` after it was last heard, or after `from_ns`
// if that is later. When the run is complete at least TIMING_HOME_NS, unless its port refuses
// connections.
uint64_t contact_awaited_until(const peer *p, const cluster_contact *c, uint64_t from_ns, uint64_t grace_ns);
void contact_touch(peer *p, uint32_t index);  // makes contacts_tick look at it again
void contacts_touch(peer *p);
void contacts_tick(peer *p);
void contact_forget(peer *p, cluster_contact *c);
bool contact_answers(const peer *p, const cluster_contact *c);
void contacts_compensate_pause(peer *p, uint64_t late_ns);  // this process was paused: their silence is not counted

// ---- members.c ----------------------------------------------------------------------------------
cluster_member *member_find(const peer *p, member_id id);
bool member_live(const peer *p, member_id id);
bool member_at(const peer *p, member_id id, uint16_t stage);  // live, of that stage, and not this peer itself
// True for a live member that the failure detector does not suspect.
bool member_answers(const peer *p, member_id id);
// The time until which member_answers keeps its result if no message arrives; 0: it may change at
// any time.
uint64_t member_answers_until(const peer *p, member_id id);
// True for a member of the whole-model peer that this peer belongs to.
bool member_shares_machine(const peer *p, member_id id);
uint32_t member_count_stage(const peer *p, uint16_t stage);
void member_add(peer *p, uint64_t index, const log_member *entry);
void member_remove(peer *p, member_id id, uint8_t reason);
member_id member_before(const peer *p);  // the member that an earlier incarnation of this peer still is in the log, 0: none
void members_forget(peer *p);

// ---- leadership.c -------------------------------------------------------------------------------
void lead_heard(peer *p, const braid_id *id, uint64_t term, bool by_itself);
void on_leader(peer *p, uint32_t from, const message *msg);
void lead_send(peer *p, uint32_t contact_index);
void lead_renew_addresses(const peer *p, log_voters *v);  // fills in the newest addresses, where restarted voters look for each other
bool lead_is_voter(const peer *p, const braid_id *id);
void lead_ask(peer *p);
void lead_tell_all_again(peer *p);
bool lead_among(const log_voters *voters, const braid_id *id);
void lead_ask_where(peer *p);
void lead_unknown_claims(peer *p);  // an unknown peer claims to lead
bool lead_term_is_plausible(const peer *p, uint64_t term);
bool lead_trusts(const peer *p, uint32_t contact_index);

static inline bool member_is_standby(const cluster_member *m) { return m->stage == NO_STAGE; }

#endif
