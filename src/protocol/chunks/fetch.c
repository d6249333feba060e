// State transfer to a joiner (docs/protocol.md, Members and state, J3 to J7). Every chunk carries
// its version, and results of later iterations bring it forward, so the sources need no copy. Three
// steps:
//   1. the content hashes of the present version; the log or the leader attests their root;
//   2. chunks that the host's cache has already;
//   3. the rest, from all members that have the state, each at its own rate.
// A chunk that does not match its content hash is fetched from another source.
#include "protocol/chunks/chunks.h"

#include <string.h>

enum {
    CHUNK_BLOCKS = 2,   // blocks moved by one GET: 1.5 MiB
    DONOR_CHUNKS = 4,   // GETs under way to one source
    STATE_PULLS = 16,   // GETs under way or chunks waiting to be stored, in all: 24 MiB
    KEEP_BLOCKS = 8,    // blocks compared by one job
};

// If the cached state is the one that FINAL was applied to, the results of that iteration bring it
// forward.
static void take_up(peer *p) {
    const log_final *final = &p->state.final.u.final;
    uint64_t version = p->chunks->fetching.own_version;
    bool fits = p->state.has_final && version == p->chunks->root_version && version == final->iteration && version + 1 == p->state.iteration;
    if (!fits || !hash_equal(&p->chunks->state_root, &final->state_root[p->stage])) return;
    for (uint32_t b = 0; b < p->chunks->blocks; b++) p->chunks->block_version[b] = version;
    versions_changed(p);
    p->chunks->cached_stage = 1u + p->stage;
    reduce_apply(p);
}

void fetch_reset(peer *p) {
    memset(&p->chunks->fetching, 0, sizeof p->chunks->fetching);
    p->chunks->fetching.keeps = p->config.has_checkpoint || p->chunks->cached_stage == 1u + p->stage;
    p->chunks->fetching.own_version = p->chunks->cached_stage == 1u + p->stage ? p->chunks->cached_version : UINT64_MAX;
    p->chunks->cached_stage = 0;
    take_up(p);
}

static cluster_contact *contact_of(peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m == NULL || m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact];
}

static void pull_overdue(peer *p, const chunk_pull *q);
static void pull_refused(peer *p, const chunk_pull *q, const message_deny_get *deny);
static void pull_data(peer *p, const message *msg, blob_id blob);
static void pull_failed(peer *p, const chunk_pull *was) { (void)p, (void)was; }  // fetch_tick asks again

// Content hashes and chunks of this peer's own state.
static const chunk_client state_pulls = {.refused = pull_refused, .overdue = pull_overdue, .failed = pull_failed, .data = pull_data};

void fetch_open(peer *p) { p->chunks->late_state = &state_pulls; }

// ---- the root that names must have --------------------------------------------------------------

static bool root_of(const peer *p, uint64_t version, braid_hash *root) {
    const state_fetch *f = &p->chunks->fetching;
    if (p->state.has_final && p->state.final.u.final.iteration == version) *root = p->state.final.u.final.state_root[p->stage];
    else if (run_state_names_root(&p->state, version, p->stage, root)) return true;
    else if (version == p->state.iteration && p->chunks->agreed_state(p, root)) return true;
    else if (f->attested && f->attested_version == version) *root = f->attested_root;
    else return false;
    return true;
}

void fetch_attested(peer *p, uint32_t from, const message *msg) {
    const message_state *body = &msg->u.state;
    if (p->me == 0 || from == NO_CONTACT || !id_equal(&p->cluster->contacts[from].id, &p->cluster->lead.id) || body->stage != p->stage) return;
    p->chunks->fetching.attested = true;
    p->chunks->fetching.attested_version = body->version;
    p->chunks->fetching.attested_root = body->state_root;
}

// ---- donors -------------------------------------------------------------------------------------

static bool is_mine(const peer *p, const chunk_pull *q) { return q->used && q->what == GET_STATE && q->stage == p->stage; }

static uint32_t open_pulls(const peer *p, member_id from) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) open += is_mine(p, &p->chunks->pulls[i]) && (from == 0 || p->chunks->pulls[i].from == from);
    return open;
}

static bool says_that_it_has_the_start(const peer *p, const cluster_member *m) {
    const cluster_contact *c = m == NULL || m->kind != MEMBER_DATA || m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact];
    return c != NULL && c->link == LINK_UP && c->beat.saved == p->state.start_version + 1 && member_answers(p, m->id);
}

// Before the first FINAL: a member that has the start state of every stage. That is a data peer
// that reports the checkpoint from which the generation starts, each in turn; until one has, the
// first leader. 0: none, or this peer itself.
static member_id start_holder(const peer *p) {
    uint32_t first = contact_find(p, &p->config.leader_id);
    if (p->state.iteration != p->state.start_version || stored_is_start(p)) return 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[(p->chunks->fetching.next_source + i) % p->cluster->member_count];
        if (says_that_it_has_the_start(p, m)) return m->id;
    }
    return p->state.fence != 0 || first == NO_CONTACT ? 0 : p->cluster->contacts[first].member;
}

// True: it is not asked before its pause ends.
static bool rests(peer *p, const cluster_contact *c) {
    if (c->source.rest_ns <= p->now) return false;
    peer_wake_at(p, c->source.rest_ns);
    return true;
}

// The source that would finish first, among members with the whole state at this version.
// Unmeasured ones come first, corrupt ones last, then a holder of the start state. Members with
// `busy` GETs under way are skipped. 0: none now.
static member_id choose_source(peer *p, uint32_t busy) {
    member_id best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[(p->chunks->fetching.next_source + i) % p->cluster->member_count];
        if (m->keeps != p->stage || m->contact == NO_CONTACT) continue;
        const cluster_contact *c = &p->cluster->contacts[m->contact];
        if (c->link != LINK_UP || c->beat.ready != p->state.iteration + 1 || !member_answers(p, m->id) || rests(p, c)) continue;
        uint32_t open = open_pulls(p, m->id);
        if (open >= (c->source.paced && busy > 1 ? 1 : busy)) continue;
        uint64_t until = (open + 1) * c->source.block_ns;
        if (c->source.corrupt) until = UINT64_MAX - 1;
        if (until >= least) continue;
        least = until;
        best = m->id;
    }
    p->chunks->fetching.next_source++;
    if (best != 0) return best;
    const cluster_contact *c = contact_of(p, start_holder(p));
    return c == NULL || !member_answers(p, c->member) || rests(p, c) || open_pulls(p, c->member) >= busy ? 0 : c->member;
}

static void measure_source(peer *p, cluster_contact *c, const chunk_pull *q) {
    uint64_t since = c->source.came_ns > q->asked_ns ? c->source.came_ns : q->asked_ns;
    c->source.block_ns = timing_smooth(c->source.block_ns, (p->now - since) / q->count + 1);
}

static void pull_overdue(peer *p, const chunk_pull *q) {
    cluster_contact *c = is_mine(p, q) ? contact_of(p, q->from) : NULL;
    if (c != NULL && c->source.block_ns < (p->now - q->asked_ns) / q->count) c->source.block_ns = (p->now - q->asked_ns) / q->count;
}

static void pull_refused(peer *p, const chunk_pull *q, const message_deny_get *deny) {
    cluster_contact *c = q->stage == p->stage && (q->what == GET_STATE || q->what == GET_NAMES) ? contact_of(p, q->from) : NULL;
    if (c == NULL) return;
    uint64_t most_ms = TIMING_EXPEL_SILENCE_NS / TIMING_MS, wait_ms = deny->wait_ms < most_ms ? deny->wait_ms : most_ms;
    bool waits = deny->reason == GET_LATER;
    c->source.paced |= waits;
    c->source.rest_ns = p->now + (waits ? wait_ms * TIMING_MS : TIMING_SOURCE_REST_NS);
}

void fetch_note_corrupt(peer *p, uint32_t index, uint16_t stage) {
    cluster_contact *c = &p->cluster->contacts[index];
    c->source.corrupt = true;
    c->source.rest_ns = p->now + TIMING_CORRUPT_REST_NS;
    tell say = {.kind = TELL_LIED, .member = c->member, .id = c->id, .stage = stage, .iteration = p->state.iteration};
    peer_tell(p, &say);
}

// ---- missing chunks -----------------------------------------------------------------------------

// True if the block must be fetched. A block that results will bring forward is not missing, unless
// those results were given up or replaced by later ones.
static bool block_missing(const peer *p, uint32_t b) {
    uint64_t version = p->chunks->block_version[b];
    if (version == p->state.iteration) return false;
    bool next = p->state.has_final && version == p->state.final.u.final.iteration && version + 1 == p->state.iteration;
    bool skipped = next && p->state.final.u.final.skip;
    return !next || (!skipped && p->chunks->aggregation.results != version) || (p->chunks->aggregation.given_up && p->chunks->aggregation.results == version);
}

static bool meets(const core_job *t, uint32_t first, uint32_t count) {
    return t->work.kind == JOB_STATE_PUT && first < t->work.first + t->work.count && t->work.first < first + count;
}

// True if some of these blocks have arrived and are about to be stored.
static bool put_waits(const peer *p, uint32_t first, uint32_t count) {
    if (p->core.running.work.id != 0 && meets(&p->core.running, first, count)) return true;
    for (uint32_t i = 0; i < p->core.task_count; i++)
        if (meets(&p->core.tasks[(p->core.task_first + i) % PEER_MAX_TASKS], first, count)) return true;
    return false;
}

// The missing part of the chunk that begins at `first`.
static uint32_t chunk(const peer *p, uint32_t *first) {
    uint32_t end = *first + CHUNK_BLOCKS < p->chunks->blocks ? *first + CHUNK_BLOCKS : p->chunks->blocks;
    while (*first < end && !block_missing(p, *first)) ++*first;
    while (*first < end && !block_missing(p, end - 1)) end--;
    return end - *first;
}

static bool something_missing(const peer *p) {
    for (uint32_t b = 0; b < p->chunks->blocks; b++)
        if (block_missing(p, b)) return true;
    return false;
}

// ---- names --------------------------------------------------------------------------------------

static bool names_known(const peer *p, uint64_t version) {
    return p->chunks->fetching.names[version % 2].known && p->chunks->fetching.names[version % 2].version == version;
}

static void ask_names(peer *p) {
    state_fetch *f = &p->chunks->fetching;
    braid_hash root;
    if (f->naming) return;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (pull_overlaps(&p->chunks->pulls[i], GET_NAMES, p->stage, 0, p->chunks->blocks)) return;
    if (f->names_ns != 0 && p->now < f->names_ns + TIMING_SOURCE_REST_NS) {
        peer_wake_at(p, f->names_ns + TIMING_SOURCE_REST_NS);
        return;
    }
    f->names_ns = p->now;
    peer_wake_at(p, p->now + TIMING_SOURCE_REST_NS);
    bool vouched = root_of(p, p->state.iteration, &root);
    member_id from = vouched ? choose_source(p, STATE_PULLS) : start_holder(p);
    if (!vouched) f->next_source++;  // a source that does not answer is not asked again at once
    chunk_pull *q = from == 0 ? NULL : pull_start(p, &state_pulls, GET_NAMES, p->stage, from, 0, p->chunks->blocks, p->state.iteration);
    if (q != NULL) pull_send(p, q);
}

// ---- the state that I had when I was expelled ---------------------------------------------------
// It may be the last copy. So its hash is reported to the leader like any member's. The hash that
// the leader then attests shows whether the cached chunks are of that version.

void fetch_own_root(peer *p, const core_job *t, const job_result *r) {
    state_fetch *f = &p->chunks->fetching;
    if (t->work.version != f->own_version) return;
    f->own_known = true;
    f->own_root = r->hash;
}

static void tell_own_root(peer *p) {
    state_fetch *f = &p->chunks->fetching;
    uint64_t due = f->own_told_ns + TIMING_REPEAT_NS;
    if (f->own_told_ns == 0 || p->now >= due) {
        message_state *state = &peer_compose(p, MESSAGE_STATE)->u.state;
        state->stage = p->stage;
        state->version = f->own_version;
        state->state_root = f->own_root;
        peer_send_leader(p);
        f->own_told_ns = p->now;
        due = p->now + TIMING_REPEAT_NS;
    }
    peer_wake_at(p, due);
}

static void own_names(peer *p) {
    state_fetch *f = &p->chunks->fetching;
    braid_hash root;
    if (f->own_version != p->state.iteration || f->naming) return;
    if (!f->own_asked) {
        core_job *t = jobs_add(p, JOB_STATE_ROOT);
        if (t != NULL) t->work.version = f->own_version;
        f->own_asked = t != NULL;
        return;
    }
    if (!f->own_known) return;
    if (!root_of(p, f->own_version, &root)) {
        tell_own_root(p);
        return;
    }
    bool same = hash_equal(&root, &f->own_root);
    core_job *t = same ? jobs_add(p, JOB_NAMES_GET) : NULL;
    if (t != NULL) t->work.version = f->own_version;
    f->naming = t != NULL;
    if (t != NULL || !same) f->own_version = UINT64_MAX;
}

void fetch_own_names(peer *p, const core_job *t, const job_result *r) {
    blob_id out = r->out;
    core_job *put = p->chunks->fetching.naming && out != 0 ? jobs_add(p, JOB_NAMES_PUT) : NULL;
    if (put == NULL) {
        p->chunks->fetching.naming = false;
        peer_release(p, &out);
        return;
    }
    put->work.version = t->work.version;
    put->work.in = out;
}

static void names_put_done(peer *p, const core_job *t, const job_result *r) {
    state_fetch *f = &p->chunks->fetching;
    uint64_t version = t->work.version;
    braid_hash root;
    f->naming = false;
    f->names[version % 2].known = false;
    const cluster_contact *from = t->contact == NO_CONTACT ? NULL : &p->cluster->contacts[t->contact];  // NULL: hashes of the cached state
    bool told = root_of(p, version, &root);
    bool begins = from != NULL && from->member != 0 && (from->member == start_holder(p) || says_that_it_has_the_start(p, member_find(p, from->member)));
    if (!told && (version != p->state.iteration || !begins)) return;
    if (r->failed || (told && !hash_equal(&root, &r->hash))) {
        if (from != NULL) fetch_note_corrupt(p, t->contact, t->work.stage);
        return;
    }
    f->names[version % 2].known = true;
    f->names[version % 2].version = version;
    f->keep_next = 0;
}

// ---- what lies here -----------------------------------------------------------------------------

bool fetch_finds_its_own(const peer *p) {
    const state_fetch *f = &p->chunks->fetching;
    bool looks = f->keeping || (f->keeps && names_known(p, p->state.iteration) && f->keep_next < p->chunks->blocks);
    return p->me != 0 && !p->ready && (f->own_version == p->state.iteration || f->naming || looks);
}

// False: the cache has nothing more to compare.
static bool keep_some(peer *p) {
    state_fetch *f = &p->chunks->fetching;
    if (!f->keeps || f->keep_next >= p->chunks->blocks) return false;
    core_job *t = f->keeping ? NULL : jobs_add(p, JOB_STATE_KEEP);
    if (t == NULL) return true;
    t->work.first = f->keep_next;
    t->work.count = p->chunks->blocks - f->keep_next < KEEP_BLOCKS ? p->chunks->blocks - f->keep_next : KEEP_BLOCKS;
    t->work.version = p->state.iteration;
    f->keep_next += t->work.count;
    f->keeping = true;
    return f->keep_next < p->chunks->blocks;
}

static void stored(peer *p, uint32_t first, uint64_t blocks, uint64_t version) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < KEEP_BLOCKS; i++) {
        uint64_t *at = &p->chunks->block_version[first + i];
        if ((blocks >> i & 1) && (*at == UINT64_MAX || *at < version)) *at = version;
    }
    versions_changed(p);
    for (uint32_t b = 0; b < p->chunks->blocks; b++) there += p->chunks->block_version[b] != UINT64_MAX;
    p->chunks->cached_stage = 1u + p->stage;
    tell say = {.kind = TELL_TRANSFER, .stage = p->stage, .done = there, .total = p->chunks->blocks, .iteration = p->state.iteration};
    peer_tell(p, &say);
    reduce_apply(p);
    versions_check_ready(p);
}

static void keep_done(peer *p, const core_job *t, const job_result *r) {
    p->chunks->fetching.keeping = false;
    uint64_t kept = r->hash64 & (((uint64_t)1 << t->work.count) - 1);
    if (!r->failed && kept != 0) stored(p, t->work.first, kept, r->version);
}

// ---- what others have ---------------------------------------------------------------------------

static uint32_t chunks_held(const peer *p) {
    uint32_t chunks = open_pulls(p, 0);
    for (uint32_t i = 0; i < p->core.task_count; i++) chunks += p->core.tasks[(p->core.task_first + i) % PEER_MAX_TASKS].work.kind == JOB_STATE_PUT;
    return chunks;
}

static bool under_way(const peer *p, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (pull_overlaps(&p->chunks->pulls[i], GET_STATE, p->stage, first, count)) return true;
    return put_waits(p, first, count);
}

static bool ask(peer *p, member_id from, uint32_t first, uint32_t count) {
    chunk_pull *q = pull_start(p, &state_pulls, GET_STATE, p->stage, from, first, count, p->state.iteration);
    if (q != NULL) pull_send(p, q);
    return q != NULL;
}

// Hedged requests: everything is asked for, and an idle source would finish a late chunk sooner.
static void hedge(peer *p) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        const chunk_pull *late = &p->chunks->pulls[i];
        uint32_t asked = 0;
        for (uint32_t j = 0; j < PEER_MAX_PULLS && is_mine(p, late); j++) asked += pull_overlaps(&p->chunks->pulls[j], GET_STATE, p->stage, late->first, late->count);
        if (asked != 1) continue;
        member_id idle = choose_source(p, 1);
        const cluster_contact *c = contact_of(p, idle);
        if (c == NULL || c->source.block_ns == 0 || c->source.corrupt) return;
        uint64_t due_ns = late->asked_ns + 2 * c->source.block_ns * late->count + TIMING_HEDGE_NS;
        if (p->now >= due_ns) ask(p, idle, late->first, late->count);
        else peer_wake_at(p, due_ns);
    }
}

static void fetch(peer *p) {
    uint32_t open = chunks_held(p);
    for (uint32_t at = 0; at < p->chunks->blocks && open < STATE_PULLS; at += CHUNK_BLOCKS) {
        uint32_t first = at, count = chunk(p, &first);
        if (count == 0 || under_way(p, first, count)) continue;
        member_id from = choose_source(p, DONOR_CHUNKS);
        if (from == 0) {
            peer_wake_at(p, p->now + TIMING_SOURCE_REST_NS);
            return;
        }
        if (!ask(p, from, first, count)) return;
        open++;
    }
    if (open < STATE_PULLS && !peer_breaks(p, PEER_MUTANT_WAITS_FOR_THE_DEAD)) hedge(p);
}

void fetch_tick(peer *p) {
    if (!something_missing(p)) return;
    bool known = names_known(p, p->state.iteration);
    if (!known) own_names(p);
    if (!known) ask_names(p);
    else if (!keep_some(p)) fetch(p);
}

// True if this peer has none of these blocks at that version or a later one.
static bool is_newer(const peer *p, uint32_t first, uint32_t count, uint64_t version) {
    for (uint32_t b = first; b < first + count; b++)
        if (p->chunks->block_version[b] != UINT64_MAX && p->chunks->block_version[b] >= version) return false;
    return true;
}

// True if a chunk that waits to be stored is still new; otherwise the host would go back to an
// older version.
bool fetch_counts(const peer *p, const core_job *t) { return is_newer(p, t->work.first, t->work.count, t->work.version); }

static bool wanted(const peer *p, const message_get *get) {
    bool useful = get->version == p->state.iteration || get->version + 1 == p->state.iteration;
    if (p->ready || !useful || !names_known(p, get->version) || get->count > PEER_SEGMENT_BLOCKS || put_waits(p, get->first, get->count)) return false;
    return is_newer(p, get->first, get->count, get->version);
}

// Takes a chunk of state. Chunks of pulls that have ended are used as well.
static bool take_state(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    core_job *t = wanted(p, get) ? jobs_add(p, JOB_STATE_PUT) : NULL;
    if (t == NULL) return false;
    t->work.first = get->first;
    t->work.count = get->count;
    t->work.version = get->version;
    t->work.in = blob;
    t->work.expected = msg->u.data.hash;
    t->work.named = !peer_breaks(p, PEER_MUTANT_TRUSTS_DONORS);
    t->contact = member_find(p, msg->sender)->contact;
    return true;
}

static bool take_names(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    core_job *t = p->ready || p->chunks->fetching.naming || get->count != p->chunks->blocks ? NULL : jobs_add(p, JOB_NAMES_PUT);
    if (t == NULL) return false;
    t->work.version = get->version;
    t->work.in = blob;
    t->contact = member_find(p, msg->sender)->contact;
    p->chunks->fetching.naming = true;
    return true;
}

static void pull_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    if (get->stage != p->stage) {  // asked for by an earlier membership in another stage
        peer_release(p, &blob);
        return;
    }
    cluster_contact *c = contact_of(p, msg->sender);
    bool asked = false;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        if (q->from != msg->sender || !pull_overlaps(q, get->what, p->stage, get->first, get->count)) continue;
        asked |= q->version == get->version;
        if (c != NULL && get->what == GET_STATE) measure_source(p, c, q);
        q->used = false;
    }
    if (c != NULL) c->source.came_ns = p->now;
    bool taken = c != NULL && (get->what == GET_STATE ? take_state(p, msg, blob) : asked && take_names(p, msg, blob));
    if (!taken) peer_release(p, &blob);
    for (uint32_t i = 0; taken && i < PEER_MAX_PULLS; i++)  // of hedged requests too
        if (pull_overlaps(&p->chunks->pulls[i], get->what, p->stage, get->first, get->count)) p->chunks->pulls[i].used = false;
}

static void put_done(peer *p, const core_job *t, const job_result *r) {
    if (r->failed) fetch_note_corrupt(p, t->contact, t->work.stage);
    else stored(p, t->work.first, ((uint64_t)1 << t->work.count) - 1, r->version);
}

void fetch_job_done(peer *p, const core_job *t, const job_result *r) {
    blob_id in = t->work.in;
    peer_release(p, &in);
    if (p->me == 0 || t->work.stage != p->stage) return;
    switch (t->work.kind) {
    case JOB_NAMES_PUT: names_put_done(p, t, r); break;
    case JOB_STATE_KEEP: keep_done(p, t, r); break;
    default: put_done(p, t, r); break;
    }
}
