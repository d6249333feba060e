// Pulls: chunks that are asked for by GET, their answers and time limits. What they are for is
// known to their client (chunk_client, chunks.h).
#include "protocol/chunks/chunks.h"

enum { STANDBY_LINK_SHARE = 4 };  // a standby pulls during this fraction of the time

// Rule B2. A standby has one pull at a time. Then it pauses three times as long as the pull took,
// so that working members come first.
bool pulls_may_start(peer *p) {
    if (!p->standby) return true;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (p->chunks->pulls[i].used) return false;
    if (p->now >= p->chunks->rest_until_ns) return true;
    peer_wake_at(p, p->chunks->rest_until_ns);
    return false;
}

void pulls_pause_standby(peer *p, uint64_t took_ns) {
    if (p->standby) p->chunks->rest_until_ns = p->now + (STANDBY_LINK_SHARE - 1) * took_ns;
}

chunk_pull *pull_start(peer *p, const chunk_client *client, uint8_t what, uint16_t stage, member_id from, uint32_t first, uint32_t count, uint64_t version) {
    if (!pulls_may_start(p)) return NULL;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        if (q->used) continue;
        *q = (chunk_pull){.used = true, .client = client, .what = what, .stage = stage, .from = from, .first = first, .count = count, .version = version};
        return q;
    }
    return NULL;
}

bool pull_overlaps(const chunk_pull *q, uint8_t what, uint16_t stage, uint32_t first, uint32_t count) {
    return q->used && q->what == what && q->stage == stage && first < q->first + q->count && q->first < first + count;
}

void pull_send(peer *p, chunk_pull *q) {
    message_get *get = &peer_compose(p, MESSAGE_GET)->u.get;
    get->what = q->what;
    get->stage = q->stage;
    get->round = q->round;
    get->version = q->version;
    get->first = q->first;
    get->count = q->count;
    get->set_digest = q->set_digest;
    get->close_index = q->close_index;
    get->by = q->by;
    get->serial = q->serial;
    const cluster_member *m = member_find(p, q->from);
    const timing_link none = {0};
    q->asked_ns = p->now;
    q->deadline_ns = p->now + timing_get_limit(m == NULL || m->contact == NO_CONTACT ? &none : &p->cluster->contacts[m->contact].timing);
    if (q->by != 0) q->deadline_ns = p->now + q->timeout_ns;
    if (!peer_send_member(p, q->from, 0)) q->deadline_ns = p->now + TIMING_RETRY_NS;
    peer_wake_at(p, q->deadline_ns);
}

void pulls_drop(peer *p, uint8_t what) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (p->chunks->pulls[i].what == what) pull_end(p, &p->chunks->pulls[i]);
}

void pull_end(peer *p, chunk_pull *q) {
    peer_release(p, &q->piece);
    q->used = false;
}

static bool waits_for_the_dead(const peer *p, const chunk_pull *q) { return peer_breaks(p, PEER_MUTANT_WAITS_FOR_THE_DEAD) && q->what == GET_STATE; }

// A link fell: what it had not delivered is lost. The pulls end at once, and the source is not
// counted as slow.
void pulls_link_lost(peer *p, member_id from) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        if (q->used && q->by != 0) multipath_link_lost(p, q, from);
        if (!q->used || q->by != 0 || q->from != from || waits_for_the_dead(p, q)) continue;
        q->asked_ns = q->deadline_ns = p->now;
        peer_wake_at(p, p->now);
    }
}

// A source that answers heartbeats but not GET has a slow link: raise its limit.
static void pull_overdue(peer *p, const chunk_pull *q) {
    const cluster_member *m = member_find(p, q->from);
    if (m != NULL && m->contact != NO_CONTACT && member_answers(p, q->from))
        timing_get_overdue(&p->cluster->contacts[m->contact].timing, p->now - q->asked_ns);
    if (q->client->overdue != NULL) q->client->overdue(p, q);
}

static void pull_timed(peer *p, const message *msg) {
    const message_get *get = &msg->u.data.get;
    const cluster_member *m = member_find(p, msg->sender);
    for (uint32_t i = 0; i < PEER_MAX_PULLS && m != NULL && m->contact != NO_CONTACT; i++) {
        const chunk_pull *q = &p->chunks->pulls[i];
        bool mine = q->used && q->by == 0 && q->what == get->what && q->from == msg->sender && q->stage == get->stage && q->first == get->first;
        if (!mine) continue;
        timing_got(&p->cluster->contacts[m->contact].timing, p->now - q->asked_ns);
        pulls_pause_standby(p, p->now - q->asked_ns);
    }
}

static void pull_fail(peer *p, chunk_pull *q) {
    const chunk_pull was = *q;
    pull_end(p, q);
    reduce_invalidate(p);
    was.client->failed(p, &was);
}

void pulls_denied(peer *p, const message *msg) {
    const message_deny_get *body = &msg->u.deny_get;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        bool named = q->used && q->from == msg->sender && q->what == body->what && q->stage == body->stage && q->first == body->first;
        if (!named) continue;
        if (q->client->refused != NULL) q->client->refused(p, q, body);
        pull_fail(p, q);
        return;
    }
}

void pulls_tick(peer *p) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        if (!q->used || waits_for_the_dead(p, q)) continue;
        if (q->by != 0 && !multipath_goes_on(p, q)) continue;
        if (q->deadline_ns <= p->now) pull_overdue(p, q);
        if (q->deadline_ns <= p->now || !member_answers(p, q->from)) {
            pull_fail(p, q);
            peer_wake_at(p, p->now);  // another source can be asked
        } else {
            peer_wake_at(p, q->deadline_ns);
        }
    }
}

// The client of the pull that this message answers; NULL: that pull has ended.
static const chunk_client *client_of(const peer *p, const message *msg) {
    const message_get *get = &msg->u.data.get;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        const chunk_pull *q = &p->chunks->pulls[i];
        if (q->used && q->what == get->what && q->from == msg->sender && q->stage == get->stage && q->first == get->first && q->count == get->count) return q->client;
    }
    return NULL;
}

void on_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    if (!member_live(p, msg->sender) || blob == 0 || p->me == 0) {
        if (blob == 0 && p->me != 0) multipath_announced(p, msg);
        peer_release(p, &blob);
        return;
    }
    pull_timed(p, msg);
    const chunk_client *client = client_of(p, msg);
    bool mine = get->stage == p->stage && get->first < p->chunks->blocks && get->count >= 1 && get->count <= p->chunks->blocks - get->first;
    // state is used even if its pull was given up
    if (client == NULL && mine && (get->what == GET_STATE || get->what == GET_NAMES)) client = p->chunks->late_state;
    if (client != NULL) client->data(p, msg, blob);
    else peer_release(p, &blob);
}
