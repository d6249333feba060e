// The parts of a session_peer.
//
//   peer.c     memory, the step, views        contacts.c  links, cards, heartbeats
//   effects.c  the queue of effects           cuts.c      truncations
//   stream.c   rows from one peer to the next
//   slot.c     a session at a span            origin.c    a session at its origin
//   jobs.c     the jobs of a slot             watch.c     detection of dead and slow spans
//   donor.c    hand-over of a cache           route.c     the default router
//   prefix.c   paths with warm caches
//
// Work that an event causes in many sessions is done one session at a time by session_next_effect:
// a session that has something to send is marked in a bit set, so a step's effects need a bounded
// queue only.
#ifndef BRAID_SESSION_INSIDE_H
#define BRAID_SESSION_INSIDE_H

#include "base/bitset.h"
#include "base/rng.h"
#include "session/session.h"

enum {
    WARM = 32,                 // paths of ended sessions by their first page
    OPENS = 8,                 // OPEN messages that are made at once
    EFFECTS = 1024,            // in the queue: a TELL for each peer, and some more
    EFFECT_BYTES = 96 * 1024,  // of their messages
    CUT_PAIRS = 16,            // pairs of peers that cannot reach each other, as reported
    EXCLUDED = 4,              // peers that one session avoids
    FEW_PEERS = 16,            // up to so many known peers, all are linked
    SOME_LINKS = 8,            // links for gossip in a larger swarm
    GOSSIP_BEATS = 4,          // every so many heartbeats carry cards of others
    FORGET_BEATS = 240,        // heartbeats without news until an unlinked peer is forgotten
};

// ---- truncations (cuts.c)

void cuts_add(session_cuts *c, uint32_t cut, uint32_t at);
// Rows before this position are the same in truncation `since` and now; UINT32_MAX: all are.
uint32_t cuts_valid(const session_cuts *c, uint32_t since);

// ---- rows to the next peer (stream.c)

typedef struct sender {
    bool active;   // a WANT of this epoch has come
    bool compare;  // `sent` is not yet lowered to what the receiver's truncation allows
    bool owes;     // the receiver may not know the newest truncation
    uint32_t ask, want_cut;
    uint64_t incarnation;
    uint32_t sent, limit, top;  // top: sent at most so far
} sender;

void sender_want(sender *s, const session_message_want *want);
// History before `at` only is valid.
void sender_cut(sender *s, uint32_t at);
// True if rows may be sent: the receiver's truncation is not newer than `cuts`.
bool sender_open(sender *s, const session_cuts *cuts);

typedef struct queued_rows {
    uint32_t position, count, first_row;
    session_blob blob;
} queued_rows;

typedef struct receiver {
    bool want_new, want_more;  // a WANT is due
    bool rewinding;            // asked for rows from `next` on; later ones are ignored meanwhile
    bool overflowed;           // rows were dropped for want of room
    uint32_t next, limit, ask;
    uint32_t queued;
    queued_rows queue[SESSION_QUEUE];
} receiver;

// ---- contacts (contacts.c): peer i of `known`

typedef struct contact {
    bool dialing, wanted, refused;
    uint8_t failures;  // dials in a row
    uint64_t heard_ns, down_ns, dial_ns;
    uint64_t fresh_ns;           // its card's version rose
    uint64_t stamp, stamp_ns;    // sent_ns of its newest CARDS, and when it came
    uint64_t avoid_ns, full_ns;  // not chosen until then
    bool beat;                   // CARDS is due
    bool gossip;                 // with cards of others
} contact;

typedef struct cut_pair {
    uint64_t a, b;  // first bytes of both ids
    uint64_t until_ns;
} cut_pair;

// ---- a session at a span (slot.c, jobs.c, donor.c)

typedef struct slot {
    bool used, closing;
    session_id id;
    braid_id origin, up, down;
    uint32_t epoch, room;
    uint16_t layer_begin, layer_end;
    bool last;
    bool send_ready, send_opened;
    bool lost_up, lost_down;  // reported in this epoch
    bool refused;             // a REFUSE is due, then it is freed
    uint8_t refusal;
    receiver in;
    sender out;
    session_cuts cuts;
    uint32_t home;
    uint32_t have, kept_from;  // cache [0, have), kept rows [kept_from, have)
    bool running, importing;
    uint64_t ticket, since_ns;
    uint32_t run_position, run_count, run_valid;
    session_blob run_blob;  // to release after the job; 0: its rows are needed further
    struct {
        uint64_t adapter;
        bool adopting;  // the job is an ADOPT
        uint32_t cut;   // the origin's newest at OPEN
    } begins;
    bool fetching, fetch_sent;
    braid_id donor;
    uint32_t fetch_total;
    uint64_t fetch_ns;
    uint64_t confirmed_ns, asked_ns;
} slot;

// ---- a session at its origin (origin.c, watch.c)

typedef struct own_hop {
    bool opened, open_due;
    bool has_donor;
    braid_id donor;
    bool status;  // answered the newest probe
    bool running;
    uint32_t have, next, running_ms;
} own_hop;

typedef struct excluded {
    braid_id id;
    uint64_t until_ns;
} excluded;

typedef struct own {
    bool used, ending;
    uint64_t number;
    session_open open;  // its keys are those below
    session_key key[SESSION_MAX_KEYS];
    bool began;  // BEGAN was told, or is not due
    uint32_t length, need;
    session_cuts cuts;
    sender out;
    uint32_t ask;
    bool want_new, want_more, rewinding;
    uint32_t epoch;
    bool waiting, told_waiting;
    bool repair_due;
    uint8_t repair_reason;
    braid_id repair_id;
    uint64_t retry_ns;
    bool broken;
    uint64_t broken_ns;
    uint64_t gave_way_ns;            // when it last gave up its parts of a path, to wait for room
    uint64_t progress_ns, probe_ns;  // probe_ns 0: not probed since
    bool probe_due;
    uint32_t resyncs;
    excluded out_of[EXCLUDED];
    session_path path;
    own_hop hop[SESSION_MAX_HOPS];
} own;

typedef struct warm_path {
    session_key first;
    session_path path;  // count 0: unused
} warm_path;

typedef struct effect_queue {
    uint32_t first, count;
    session_effect effect[EFFECTS];
    size_t used;
    uint8_t bytes[EFFECT_BYTES];
} effect_queue;

struct session_peer {
    session_config config;
    rng random;
    uint64_t now_ns, beat_ns, ticket;
    uint32_t beats;
    bool draining, drained;
    bool view_changed;
    bool check_kept;  // kept rows may exceed their bound
    uint32_t count;   // known peers; 0 is this one
    session_known known[SESSION_MAX_PEERS];
    contact contact[SESSION_MAX_PEERS];
    cut_pair pair[CUT_PAIRS];
    uint64_t contact_dirty[BITSET_WORDS(SESSION_MAX_PEERS)];
    uint64_t slot_dirty[BITSET_WORDS(SESSION_MAX_SLOTS)];
    uint64_t own_dirty[BITSET_WORDS(SESSION_MAX_OWN)];
    session_totals totals;
    session_message message;  // being composed
    effect_queue queue;
    warm_path warm[WARM];
    uint32_t warm_next;
    slot *slots;  // [config.slots]
    own *owns;    // [config.own]
};

static inline bool peer_mutates(const session_peer *p, session_mutant m) { return (p->config.mutants >> m) & 1; }
static inline uint64_t peer_short(const braid_id *id) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 8; i++) v |= (uint64_t)id->bytes[i] << (8 * i);
    return v;
}

// ---- effects.c
session_effect *effect_add(session_peer *p, session_effect_kind kind);
void effect_release(session_peer *p, session_blob blob);
session_tell *effect_tell(session_peer *p, session_tell_kind kind);
// A zeroed message of this kind.
session_message *message_new(session_peer *p, session_message_kind kind);
// Queues p->message. Without a link it is lost, and false.
session_effect *message_send(session_peer *p, const braid_id *to);

// ---- contacts.c
uint32_t contact_find(const session_peer *p, const braid_id *id);  // SESSION_MAX_PEERS: unknown
// Finds or adds; SESSION_MAX_PEERS: there is no room.
uint32_t contact_add(session_peer *p, const braid_id *id, const char *address);
bool contact_linked(const session_peer *p, const braid_id *id);
// True with a link; otherwise one is dialed.
bool contact_reach(session_peer *p, const braid_id *id);
bool contact_gone(const session_peer *p, uint32_t i);  // suspected
void contacts_link_up(session_peer *p, const braid_id *id);
void contacts_link_down(session_peer *p, const braid_id *id, bool refused);
void contacts_cards(session_peer *p, const braid_id *from, const session_message_cards *cards);
void contacts_heard(session_peer *p, const braid_id *id);
void contacts_beat(session_peer *p);
void contacts_pump(session_peer *p, uint32_t i);
void contacts_own_card(session_peer *p);
void contacts_cut_off(session_peer *p, const braid_id *a, const braid_id *b);
bool contacts_are_cut_off(const void *context, uint32_t a, uint32_t b);

// ---- slot.c
uint32_t slot_find(const session_peer *p, session_id id);  // config.slots: none
void slot_mark(session_peer *p, uint32_t i);
void slot_open(session_peer *p, const braid_id *from, const session_message_open *open);
void slot_rows(session_peer *p, const braid_id *from, const session_message_rows *rows, session_blob blob);
void slot_want(session_peer *p, const braid_id *from, const session_message_want *want);
void slot_ready(session_peer *p, const braid_id *from, const session_message_ready *ready);
void slot_close_message(session_peer *p, const braid_id *from, const session_message_close *close);
void slot_kept(session_peer *p, const braid_id *from, const session_message_kept *kept);
void slot_probe(session_peer *p, const braid_id *from, const session_message_probe *probe);
void slot_close(session_peer *p, uint32_t i);
void slot_give_up(session_peer *p, uint32_t i, session_refusal reason);
// Rows from `t` on are void: by a truncation of the text (`history`), or because they are computed
// again.
void slot_truncate(session_peer *p, uint32_t i, uint32_t t, bool history);
// The next row for the receiver: the origin needs none before `home`.
uint32_t slot_next_sent(const slot *s);
void slots_link(session_peer *p, const braid_id *id, bool up);
void slots_beat(session_peer *p);
void slot_pump(session_peer *p, uint32_t i);
uint64_t slots_room_used(const session_peer *p);
uint64_t slots_kept_rows(const session_peer *p);
// Rows that wait or are computed, times their layers.
uint64_t slots_waiting_layers(const session_peer *p);

// ---- jobs.c
void jobs_start(session_peer *p, uint32_t i);
void jobs_done(session_peer *p, const session_event *e);
void jobs_bound_kept(session_peer *p);

// ---- donor.c
void donor_begin(session_peer *p, uint32_t i, const session_message_open *open);
void donor_end(session_peer *p, uint32_t i);
void donor_get_cache(session_peer *p, const braid_id *from, const session_message_get_cache *get);
void donor_cache(session_peer *p, const braid_id *from, const session_message_cache *cache, session_blob blob);
void donor_imported(session_peer *p, uint32_t i);
void donor_pump(session_peer *p, uint32_t i);
void donor_beat(session_peer *p, uint32_t i);
// An empty slot begins with pages of earlier texts.
void donor_adopt(session_peer *p, uint32_t i, const session_message_open *open);
void donor_adopted(session_peer *p, uint32_t i, const session_event *e);
void donor_names(session_peer *p, const braid_id *from, const session_message_names *names);

// ---- prefix.c
void prefix_note_path(session_peer *p, const own *o);
const session_path *prefix_warm_path(session_peer *p, const own *o);

// ---- origin.c
session_id own_id(const session_peer *p, const own *o);
uint32_t own_find(const session_peer *p, uint64_t number);  // config.own: none
uint32_t own_of(const session_peer *p, session_id id);
void own_mark(session_peer *p, uint32_t i);
void own_open(session_peer *p, uint64_t number, const session_open *open);
void own_step(session_peer *p, const session_event *e);
void own_end(session_peer *p, uint64_t number);
// Look for another path, because of the span `id`; own_pump does it.
void own_repair(session_peer *p, uint32_t i, const braid_id *id, session_reason reason);
void own_try_path(session_peer *p, uint32_t i);
void own_exclude(session_peer *p, uint32_t i, const braid_id *id, uint64_t for_ns);
uint32_t own_hop_of(const own *o, const braid_id *id);  // SESSION_MAX_HOPS: not in the path
void own_opened(session_peer *p, const braid_id *from, const session_message_opened *opened);
void own_refuse(session_peer *p, const braid_id *from, const session_message_refuse *refuse);
void own_want(session_peer *p, const braid_id *from, const session_message_want *want);
void own_ready(session_peer *p, const braid_id *from, const session_message_ready *ready);
void own_rows(session_peer *p, const braid_id *from, const session_message_rows *rows, session_blob blob);
void own_lost(session_peer *p, const braid_id *from, const session_message_lost *lost);
void own_held(session_peer *p, const braid_id *from, const session_message_held *held);
void own_pump(session_peer *p, uint32_t i);

// ---- watch.c
void watch_status(session_peer *p, const braid_id *from, const session_message_status *status);
void watch_gone(session_peer *p, const braid_id *id, session_reason reason);
void watch_draining(session_peer *p, const braid_id *id);
void watch_link(session_peer *p, const braid_id *id, bool up);
void watch_beat(session_peer *p);
// Names for all spans of the path.
void watch_send_names(session_peer *p, const session_event *e);
void watch_check_began(session_peer *p, uint32_t i);

#endif
