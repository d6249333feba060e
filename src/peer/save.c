// A checkpoint, written by the leader's host from blocks that members of every stage serve. State changes only by FINAL,
// so the version to be saved stands still as long as FINAL waits: no snapshot, no copy, old or new and never a mix. Of each stage
// the names of the blocks come first; their root must be what its members agreed on. What is not what its name says is asked
// of another one.
#include "peer/internal.h"

#include <string.h>

enum { SAVE_UNDER_WAY = 3 };

void save_begin(peer *p, uint64_t version) {
    leader *l = &p->leader;
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

// A version after skipped iterations has the weights of the version before them: saving it would push an older checkpoint out, and
// that one may be the newest from which the run can recover. What became due meanwhile is saved after the next step.
static bool save_is_due(const peer *p) {
    const log_final *f = &p->final.u.final;
    uint64_t every = p->run.save ? p->run.checkpoint_every : 0, version = f->iteration + 1, since = f->iteration;
    if (every == 0 || (f->skip && f->skipped > 0)) return false;
    since -= p->skipped_before < since ? p->skipped_before : since;
    return version / every > since / every;
}

void leader_save_when_due(peer *p) {
    leader *l = &p->leader;
    if (!p->has_final) return;
    bool last = p->final.u.final.last;
    if (last && final_is_hopeless(p, &p->final.u.final)) {
        l->phase = LEADER_OVER;  // nothing is saved over what there is
        l->end_appended = false;
        return;
    }
    if (last) l->phase = LEADER_SAVING_LAST;
    if (last || save_is_due(p)) save_begin(p, p->iteration);
}

static uint32_t blocks_at(const peer *p, uint16_t stage, uint32_t first) {
    uint32_t left = p->run.blocks[stage] - first;
    return left < PEER_SEGMENT_BLOCKS ? left : PEER_SEGMENT_BLOCKS;
}

static bool ask_myself(peer *p, uint32_t first) {
    if (!p->ready || p->version != p->leader.save_version) return false;
    task *t = task_add(p, JOB_STATE_GET);
    if (t == NULL) return false;
    t->work.stage = 0;
    t->work.first = first;
    t->work.count = blocks_at(p, 0, first);
    t->serial = p->leader.save_serial;
    t->work.version = p->leader.save_version;
    return true;
}

static bool has_it(const peer *p, const member *m, uint16_t stage) {
    const contact *c = m->stage != stage || m->contact == NO_CONTACT ? NULL : &p->contacts[m->contact];
    return c != NULL && c->link == LINK_UP && member_answers(p, m->id) && c->beat.ready == p->leader.save_version + 1;
}

static bool ask_member(peer *p, uint8_t what, uint16_t stage, uint32_t first, uint32_t count) {
    leader *l = &p->leader;
    for (uint32_t tries = 0; tries < p->member_count; tries++) {
        const member *m = &p->members[l->save_donor++ % p->member_count];
        if (!has_it(p, m, stage) || p->contacts[m->contact].donor.lied) continue;
        pull *q = pull_start(p, what, stage, m->id, first, count, l->save_version);
        if (q == NULL) return false;
        pull_send(p, q);
        return true;
    }
    return false;
}

// ---- names --------------------------------------------------------------------------------------------------------

// Two say so, or there is only one.
static bool state_is_sure(const peer *p, uint16_t stage) {
    const stage_round *r = &p->leader.round[stage];
    uint32_t able = 0, same = 0;
    for (uint32_t i = 0; i < p->member_count; i++) able += has_it(p, &p->members[i], stage);
    for (uint32_t i = 0; i < r->states; i++) same += hash_equal(&r->state_root[i], &r->agreed_state);
    return r->state_agreed && same >= (able < 2 ? 1 : 2);
}

static bool named_rightly(const peer *p, uint16_t stage) {
    const stage_round *r = &p->leader.round[stage];
    return stage == p->stage || (r->named && r->state_agreed && hash_equal(&r->named_root, &r->agreed_state));
}

// Who is asked makes the root of its names at once and says so to the leader.
static void ask_names(peer *p, uint16_t stage) {
    leader *l = &p->leader;
    uint64_t next_ns = l->save_names_ns + TIMING_REPEAT_NS / 10;
    bool asked = l->save_naming;
    for (uint32_t i = 0; i < PEER_MAX_PULLS; i++) asked |= pull_overlaps(&p->pulls[i], GET_NAMES, stage, 0, p->run.blocks[stage]);
    if (asked) return;
    if (l->save_names_ns == 0 || p->now >= next_ns) {
        l->save_names_ns = p->now;
        ask_member(p, GET_NAMES, stage, 0, p->run.blocks[stage]);
        next_ns = p->now + TIMING_REPEAT_NS / 10;
    }
    peer_wake_at(p, next_ns);
}

// Whoever is there, or comes to be, sends something else: no checkpoint, and the run goes on.
static bool all_lie(const peer *p, uint16_t stage) {
    uint32_t liars = 0;
    for (uint32_t i = 0; i < p->member_count; i++) {
        const member *m = &p->members[i];
        if (m->stage != stage || m->contact == NO_CONTACT) continue;
        if (!p->contacts[m->contact].donor.lied) return false;
        liars++;
    }
    return liars > 0;
}

static void names_saved(peer *p, const task *t, const job_result *r) {
    stage_round *at = &p->leader.round[t->work.stage];
    p->leader.save_naming = false;
    if (!r->failed && !state_is_sure(p, t->work.stage)) return;  // asked again, of another one
    if (r->failed || !hash_equal(&r->hash, &at->agreed_state)) {
        fetch_note_lie(p, t->contact, t->work.stage);
        return;
    }
    at->named = true;
    at->named_root = r->hash;
}

// ---- blocks -------------------------------------------------------------------------------------------------------

static bool ask(peer *p, uint16_t stage, uint32_t first) {
    return stage == 0 ? ask_myself(p, first) : ask_member(p, GET_STATE, stage, first, blocks_at(p, stage, first));
}

static void save_end(peer *p, bool give_up) {
    leader *l = &p->leader;
    task *t = task_add(p, JOB_SAVE_END);
    if (t == NULL) return;
    t->work.version = l->save_version;
    t->work.final = l->phase == LEADER_SAVING_LAST;
    t->work.skip = give_up;
    t->serial = l->save_serial;
    l->save_ending = true;
}

// The stage, from 0, whose names were not what its members agree on in the end; `stages` when there is none.
static uint16_t misnamed(const peer *p) {
    uint16_t s = 0;
    while (s < p->run.stages && named_rightly(p, s)) s++;
    return s;
}

// A complete one is in the log, with what its stages' states must be, before its iteration ends.
static void save_tell_log(peer *p) {
    leader *l = &p->leader;
    log_checkpoint *said = &l->checkpoint.u.checkpoint;
    if (said->version != p->iteration) l->checkpoint_due = false;
    for (uint16_t s = 0; s < p->run.stages && l->checkpoint_due; s++) {
        if (!l->round[s].state_agreed) return;
        said->state_root[s] = l->round[s].agreed_state;
    }
    if (!l->checkpoint_due || !log_append(p, &l->checkpoint)) return;
    l->checkpoint_due = false;
    peer_wake_at(p, p->now);  // FINAL waited for it
}

// FINAL would wait for what cannot be written, or what nobody gives. But the last one is read to its end: it says what the weights are.
static bool is_in_vain(const peer *p) {
    const leader *l = &p->leader;
    return (l->save_failed && l->phase != LEADER_SAVING_LAST) || (l->save_stage > 0 && all_lie(p, l->save_stage));
}

// The state does not change between two FINALs, so a requested checkpoint need not wait for the
// iteration's end.
static void begin_wanted(peer *p) {
    leader *l = &p->leader;
    bool between = l->phase >= LEADER_RUNNING && l->phase <= LEADER_DECIDED;
    if (!l->save_wanted || !between || l->saving || l->checkpoint_due) return;
    l->save_wanted = false;
    if (!rollback_is_saved(p, p->iteration)) save_begin(p, p->iteration);
}

void save_tick(peer *p) {
    leader *l = &p->leader;
    begin_wanted(p);
    save_tell_log(p);
    if (!l->saving || l->save_ending || p->config.kind != MEMBER_DATA) return;  // a relay hands it on
    while (l->save_stage < p->run.stages && l->save_under_way < SAVE_UNDER_WAY) {
        if (is_in_vain(p)) {
            if (l->save_under_way == 0 && !l->save_naming) save_end(p, true);
            return;
        }
        if (!named_rightly(p, l->save_stage)) {
            ask_names(p, l->save_stage);
            return;
        }
        if (!ask(p, l->save_stage, l->save_next)) {
            peer_wake_at(p, p->now + TIMING_REPEAT_NS / 10);
            return;
        }
        l->save_under_way++;
        l->save_next += blocks_at(p, l->save_stage, l->save_next);
        if (l->save_next < p->run.blocks[l->save_stage]) continue;
        l->save_next = 0;
        l->save_stage++;
    }
    if (l->save_stage < p->run.stages || l->save_under_way > 0) return;
    uint16_t wrong = misnamed(p);
    if (wrong == p->run.stages) {
        save_end(p, false);
        return;
    }
    l->save_stage = wrong;
    l->save_next = 0;
    peer_wake_at(p, p->now);
}

// `from`: the contact that sent it; NO_CONTACT: my own.
static bool store(peer *p, job_kind kind, const message_get *what, uint32_t from, blob_id blob) {
    task *t = task_add(p, kind);
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
    t->serial = p->leader.save_serial;
    t->work.version = p->leader.save_version;
    return true;
}

// One block range did not come: somebody else is asked for it. The order of the ranges does not matter.
static void ask_again(peer *p, uint16_t stage, uint32_t first) {
    if (!p->leader.saving) return;
    if (ask(p, stage, first)) return;
    // nobody can just now: go back to it; what comes after is asked for twice, which only costs time
    leader *l = &p->leader;
    l->save_under_way--;
    if (stage < l->save_stage || (stage == l->save_stage && first < l->save_next)) {
        l->save_stage = stage;
        l->save_next = first;
    }
}

void save_denied(peer *p, const pull *q) {
    if (!peer_is_leader(p) || !p->leader.saving || q->stage == p->stage || q->what != GET_STATE) return;
    ask_again(p, q->stage, q->first);
}

void save_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    for (uint32_t i = 0; peer_is_leader(p) && i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (!q->used || q->what != get->what || q->from != msg->sender || q->stage != get->stage || q->first != get->first || q->count != get->count) continue;
        if (q->version != get->version) continue;  // the answer to an older question
        q->used = false;
        if (!p->leader.saving || p->leader.save_ending || get->version != p->leader.save_version) break;
        bool names = get->what == GET_NAMES;
        bool kept = store(p, names ? JOB_SAVE_NAMES : JOB_SAVE, get, member_find(p, msg->sender)->contact, blob);
        if (names) p->leader.save_naming = kept;
        else if (!kept) ask_again(p, get->stage, get->first);
        return;
    }
    peer_release(p, &blob);
}

static void saved_all(peer *p, const job_result *r) {
    leader *l = &p->leader;
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
    // and no END: who goes on from the log computes it again
    if (t.failed || l->unlogged) leader_dismiss(p, true);
}

void save_job_done(peer *p, const task *t, const job_result *r) {
    leader *l = &p->leader;
    bool current = l->saving && t->serial == l->save_serial;  // else it leads no more, or again
    if (t->work.kind == JOB_SAVE_END) {
        if (current) saved_all(p, r);
        return;
    }
    if (t->work.kind == JOB_STATE_GET) {  // my own blocks, on their way to the file
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
        fetch_note_lie(p, t->contact, t->work.stage);
        ask_again(p, t->work.stage, t->work.first);
    } else {
        l->save_failed |= r->failed;
        l->save_under_way--;
    }
}
