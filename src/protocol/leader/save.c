// A checkpoint, written by the leader's host from blocks that members of every stage serve. State
// changes only by FINAL, so the version stays while FINAL waits: it is read without a copy, and is
// never a mix of two versions. The content hashes of a stage come first, and their root must be the
// one that its members agree on. A corrupt block is asked of another member.
#include "protocol/leader/leader.h"

#include <string.h>

enum { SAVE_UNDER_WAY = 3 };

static void pull_failed(peer *p, const chunk_pull *q);
static void pull_data(peer *p, const message *msg, blob_id blob);

// Client of pulls: content hashes and chunks of other stages' state.
static const chunk_client checkpoint_pulls = {.failed = pull_failed, .data = pull_data};

void save_drop_pulls(peer *p) {
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++)
        if (p->chunks->pulls[i].client == &checkpoint_pulls) p->chunks->pulls[i].used = false;
}

void save_begin(peer *p, uint64_t version) {
    peer_leader *l = p->leader;
    l->saving = true;
    l->save_failed = l->save_ending = l->save_naming = false;
    l->save_names_ns = 0;
    for (uint16_t s = 0; s < p->run.stages; s++) l->round[s].named = false;
    l->save_version = version;
    l->save_serial++;
    l->save_stage = 0;
    l->save_next = 0;
    l->save_under_way = 0;
}

// A version after skipped iterations has the weights of the version before them. Saving it would
// push out an older checkpoint, which may be the newest one that the run can recover from. A save
// that fell due meanwhile comes after the next step.
static bool save_is_due(const peer *p) {
    const log_final *f = &p->state.final.u.final;
    uint64_t every = p->run.save ? p->run.checkpoint_every : 0, version = f->iteration + 1, since = f->iteration;
    if (every == 0 || (f->skip && f->skipped > 0)) return false;
    since -= p->leader->skipped_before < since ? p->leader->skipped_before : since;
    return version / every > since / every;
}

void leader_save_when_due(peer *p) {
    peer_leader *l = p->leader;
    if (!p->state.has_final) return;
    bool last = p->state.final.u.final.last;
    if (last && final_is_hopeless(p, &p->state.final.u.final)) {
        l->phase = LEADER_OVER;  // healthy checkpoints stay
        l->end_appended = false;
        return;
    }
    if (last) l->phase = LEADER_SAVING_LAST;
    if (last || save_is_due(p)) save_begin(p, p->state.iteration);
}

static uint32_t blocks_at(const peer *p, uint16_t stage, uint32_t first) {
    uint32_t left = p->run.blocks[stage] - first;
    return left < PEER_SEGMENT_BLOCKS ? left : PEER_SEGMENT_BLOCKS;
}

static bool ask_myself(peer *p, uint32_t first) {
    if (!p->ready || p->version != p->leader->save_version) return false;
    core_job *t = jobs_add(p, JOB_STATE_GET);
    if (t == NULL) return false;
    t->work.stage = 0;
    t->work.first = first;
    t->work.count = blocks_at(p, 0, first);
    t->serial = p->leader->save_serial;
    t->work.version = p->leader->save_version;
    return true;
}

static bool has_it(const peer *p, const cluster_member *m, uint16_t stage) {
    const cluster_contact *c = m->stage != stage || m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact];
    return c != NULL && c->link == LINK_UP && member_answers(p, m->id) && c->beat.ready == p->leader->save_version + 1;
}

static bool ask_member(peer *p, uint8_t what, uint16_t stage, uint32_t first, uint32_t count) {
    peer_leader *l = p->leader;
    for (uint32_t tries = 0; tries < p->cluster->member_count; tries++) {
        const cluster_member *m = &p->cluster->members[l->save_source++ % p->cluster->member_count];
        if (!has_it(p, m, stage) || p->cluster->contacts[m->contact].source.corrupt) continue;
        chunk_pull *q = pull_start(p, &checkpoint_pulls, what, stage, m->id, first, count, l->save_version);
        if (q == NULL) return false;
        pull_send(p, q);
        return true;
    }
    return false;
}

// ---- names --------------------------------------------------------------------------------------

// True if two members report this hash, or if there is only one member (rule J10).
static bool state_is_sure(const peer *p, uint16_t stage) {
    const stage_round *r = &p->leader->round[stage];
    uint32_t able = 0, same = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) able += has_it(p, &p->cluster->members[i], stage);
    for (uint32_t i = 0; i < r->states; i++) same += hash_equal(&r->state_root[i], &r->agreed_state);
    return r->state_agreed && same >= (able < 2 ? 1 : 2);
}

static bool names_match(const peer *p, uint16_t stage) {
    const stage_round *r = &p->leader->round[stage];
    return stage == p->stage || (r->named && r->state_agreed && hash_equal(&r->named_root, &r->agreed_state));
}

// A member that is asked for content hashes computes their root at once and reports it.
static void ask_names(peer *p, uint16_t stage) {
    peer_leader *l = p->leader;
    uint64_t next_ns = l->save_names_ns + TIMING_RETRY_NS;
    bool asked = l->save_naming;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) asked |= pull_overlaps(&p->chunks->pulls[i], GET_NAMES, stage, 0, p->run.blocks[stage]);
    if (asked) return;
    if (l->save_names_ns == 0 || p->now >= next_ns) {
        l->save_names_ns = p->now;
        ask_member(p, GET_NAMES, stage, 0, p->run.blocks[stage]);
        next_ns = p->now + TIMING_RETRY_NS;
    }
    peer_wake_at(p, next_ns);
}

// True if all members of the stage are corrupt sources: the checkpoint is given up, and the run
// goes on.
static bool all_sources_corrupt(const peer *p, uint16_t stage) {
    uint32_t liars = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->stage != stage || m->contact == NO_CONTACT) continue;
        if (!p->cluster->contacts[m->contact].source.corrupt) return false;
        liars++;
    }
    return liars > 0;
}

static void names_saved(peer *p, const core_job *t, const job_result *r) {
    stage_round *at = &p->leader->round[t->work.stage];
    p->leader->save_naming = false;
    if (!r->failed && !state_is_sure(p, t->work.stage)) return;  // another member is asked
    if (r->failed || !hash_equal(&r->hash, &at->agreed_state)) {
        fetch_note_corrupt(p, t->contact, t->work.stage);
        return;
    }
    at->named = true;
    at->named_root = r->hash;
}

// ---- blocks -------------------------------------------------------------------------------------

static bool ask(peer *p, uint16_t stage, uint32_t first) {
    return stage == 0 ? ask_myself(p, first) : ask_member(p, GET_STATE, stage, first, blocks_at(p, stage, first));
}

static void save_end(peer *p, bool give_up) {
    peer_leader *l = p->leader;
    core_job *t = jobs_add(p, JOB_SAVE_END);
    if (t == NULL) return;
    t->work.version = l->save_version;
    t->work.final = l->phase == LEADER_SAVING_LAST;
    t->work.skip = give_up;
    t->serial = l->save_serial;
    l->save_ending = true;
}

// The first stage with content hashes other than those that its members agree on now; `stages`:
// none.
static uint16_t first_mismatched_stage(const peer *p) {
    uint16_t s = 0;
    while (s < p->run.stages && names_match(p, s)) s++;
    return s;
}

// Appends CHECKPOINT, with the hashes of all stages' states, before FINAL.
static void save_tell_log(peer *p) {
    peer_leader *l = p->leader;
    log_checkpoint *said = &l->checkpoint.u.checkpoint;
    if (said->version != p->state.iteration) l->checkpoint_due = false;
    for (uint16_t s = 0; s < p->run.stages && l->checkpoint_due; s++) {
        if (!l->round[s].state_agreed) return;
        said->state_root[s] = l->round[s].agreed_state;
    }
    if (!l->checkpoint_due || !log_append(p, &l->checkpoint)) return;
    l->checkpoint_due = false;
    peer_wake_at(p, p->now);  // FINAL waited for it
}

// True if the checkpoint cannot be written, or a stage gives no valid blocks. The last one is read
// to its end all the same, because its hash is the result of the run.
static bool cannot_complete(const peer *p) {
    const peer_leader *l = p->leader;
    return (l->save_failed && l->phase != LEADER_SAVING_LAST) || (l->save_stage > 0 && all_sources_corrupt(p, l->save_stage));
}

// Between two FINALs the state does not change, so a requested checkpoint need not wait for the
// iteration's end.
static void begin_wanted(peer *p) {
    peer_leader *l = p->leader;
    bool between = l->phase >= LEADER_RUNNING && l->phase <= LEADER_DECIDED;
    if (!l->save_wanted || !between || l->saving || l->checkpoint_due) return;
    l->save_wanted = false;
    if (!rollback_is_kept(p, p->state.iteration)) save_begin(p, p->state.iteration);
}

void save_tick(peer *p) {
    peer_leader *l = p->leader;
    begin_wanted(p);
    save_tell_log(p);
    if (!l->saving || l->save_ending || p->config.kind != MEMBER_DATA) return;  // a relay transfers leadership first
    while (l->save_stage < p->run.stages && l->save_under_way < SAVE_UNDER_WAY) {
        if (cannot_complete(p)) {
            if (l->save_under_way == 0 && !l->save_naming) save_end(p, true);
            return;
        }
        if (!names_match(p, l->save_stage)) {
            ask_names(p, l->save_stage);
            return;
        }
        if (!ask(p, l->save_stage, l->save_next)) {
            peer_wake_at(p, p->now + TIMING_RETRY_NS);
            return;
        }
        l->save_under_way++;
        l->save_next += blocks_at(p, l->save_stage, l->save_next);
        if (l->save_next < p->run.blocks[l->save_stage]) continue;
        l->save_next = 0;
        l->save_stage++;
    }
    if (l->save_stage < p->run.stages || l->save_under_way > 0) return;
    uint16_t wrong = first_mismatched_stage(p);
    if (wrong == p->run.stages) {
        save_end(p, false);
        return;
    }
    l->save_stage = wrong;
    l->save_next = 0;
    peer_wake_at(p, p->now);
}

// `from`: the contact that sent it; NO_CONTACT: this peer itself.
static bool store(peer *p, job_kind kind, const message_get *what, uint32_t from, blob_id blob) {
    core_job *t = jobs_add(p, kind);
    if (t == NULL) {
        peer_release(p, &blob);
        return false;
    }
    t->work.stage = what->stage;
    t->work.first = what->first;
    t->work.count = what->count;
    t->work.in = blob;
    t->work.named = from != NO_CONTACT && kind == JOB_SAVE && !peer_breaks(p, PEER_MUTANT_TRUSTS_DONORS);
    t->contact = from;
    t->serial = p->leader->save_serial;
    t->work.version = p->leader->save_version;
    return true;
}

// Requests a range that did not arrive from another member. Ranges may arrive in any order.
static void ask_again(peer *p, uint16_t stage, uint32_t first) {
    if (!p->leader->saving) return;
    if (ask(p, stage, first)) return;
    // no member can now: continue from here later; ranges behind it are fetched twice, which only
    // costs time
    peer_leader *l = p->leader;
    l->save_under_way--;
    if (stage < l->save_stage || (stage == l->save_stage && first < l->save_next)) {
        l->save_stage = stage;
        l->save_next = first;
    }
}

static void pull_failed(peer *p, const chunk_pull *q) {
    if (!peer_is_leader(p) || !p->leader->saving || q->what != GET_STATE) return;
    ask_again(p, q->stage, q->first);
}

static void pull_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    for (uint32_t i = 0; peer_is_leader(p) && i < PEER_MAX_PULLS; i++) {
        chunk_pull *q = &p->chunks->pulls[i];
        if (!q->used || q->what != get->what || q->from != msg->sender || q->stage != get->stage || q->first != get->first || q->count != get->count) continue;
        if (q->version != get->version) continue;  // answers an older GET
        q->used = false;
        if (!p->leader->saving || p->leader->save_ending || get->version != p->leader->save_version) break;
        bool names = get->what == GET_NAMES;
        bool kept = store(p, names ? JOB_SAVE_NAMES : JOB_SAVE, get, member_find(p, msg->sender)->contact, blob);
        if (names) p->leader->save_naming = kept;
        else if (!kept) ask_again(p, get->stage, get->first);
        return;
    }
    peer_release(p, &blob);
}

static void saved_all(peer *p, const job_result *r) {
    peer_leader *l = p->leader;
    l->saving = l->save_ending = false;
    bool failed = r->failed || l->save_failed;
    if (p->run.save) {
        tell t = {.kind = TELL_CHECKPOINT, .iteration = l->save_version, .failed = failed, .hash = r->hash};
        peer_tell(p, &t);
    }
    if (l->phase != LEADER_SAVING_LAST) {
        l->checkpoint_due = p->run.save && !failed;
        l->checkpoint = (log_entry){.kind = LOG_CHECKPOINT, .u.checkpoint = {.version = l->save_version, .weights = r->hash, .stages = p->run.stages}};
        return;
    }
    l->phase = LEADER_OVER;
    l->end_appended = false;
    tell t = {.kind = TELL_END, .iteration = l->save_version, .hash = r->hash, .failed = p->run.save && failed};
    peer_tell(p, &t);
    // and no END: a restart from the log computes the rest again
    if (t.failed || l->unlogged) leader_dismiss(p, true);
}

void save_job_done(peer *p, const core_job *t, const job_result *r) {
    peer_leader *l = p->leader;
    bool current = l->saving && t->serial == l->save_serial;  // otherwise the attempt is over
    if (t->work.kind == JOB_SAVE_END) {
        if (current) saved_all(p, r);
        return;
    }
    if (t->work.kind == JOB_STATE_GET) {  // blocks of this peer itself
        blob_id out = r->out;
        if (r->failed || out == 0) {
            peer_release(p, &out);
            if (current) ask_again(p, t->work.stage, t->work.first);
        } else if (!current) {
            peer_release(p, &out);
        } else {
            const message_get mine = {.stage = t->work.stage, .first = t->work.first, .count = t->work.count};
            if (!store(p, JOB_SAVE, &mine, NO_CONTACT, out)) ask_again(p, mine.stage, mine.first);
        }
        return;
    }
    blob_id in = t->work.in;
    peer_release(p, &in);
    if (!current) return;
    if (t->work.kind == JOB_SAVE_NAMES) {
        names_saved(p, t, r);
    } else if (r->malformed && t->contact != NO_CONTACT) {
        fetch_note_corrupt(p, t->contact, t->work.stage);
        ask_again(p, t->work.stage, t->work.first);
    } else {
        l->save_failed |= r->failed;
        l->save_under_way--;
    }
}
