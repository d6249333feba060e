// A checkpoint, written by the leader's host from blocks that members of every stage serve. State changes only by FINAL,
// so the version to be saved stands still as long as FINAL waits: no snapshot, no copy, old or new and never a mix.
#include "peer/internal.h"

#include <string.h>

enum { SAVE_UNDER_WAY = 3 };

void save_begin(peer *p, uint64_t version) {
    leader *l = &p->leader;
    l->saving = true;
    l->save_failed = l->save_ending = false;
    l->save_version = version;
    l->save_serial++;
    l->save_stage = 0;
    l->save_next = 0;
    l->save_under_way = 0;
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

static bool ask_member(peer *p, uint16_t stage, uint32_t first) {
    leader *l = &p->leader;
    for (uint32_t tries = 0; tries < p->member_count; tries++) {
        const member *m = &p->members[l->save_donor++ % p->member_count];
        if (m->stage != stage || m->contact == NO_CONTACT) continue;
        const contact *c = &p->contacts[m->contact];
        if (c->link != LINK_UP || !member_answers(p, m->id) || c->beat.ready != l->save_version + 1) continue;
        pull *q = pull_start(p, GET_STATE, stage, m->id, first, blocks_at(p, stage, first), l->save_version);
        if (q == NULL) return false;
        pull_send(p, q);
        return true;
    }
    return false;
}

static bool ask(peer *p, uint16_t stage, uint32_t first) { return stage == 0 ? ask_myself(p, first) : ask_member(p, stage, first); }

void save_tick(peer *p) {
    leader *l = &p->leader;
    if (!l->saving || l->save_ending || p->config.kind != MEMBER_DATA) return;  // a relay hands it on
    while (l->save_stage < p->run.stages && l->save_under_way < SAVE_UNDER_WAY) {
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
    task *t = task_add(p, JOB_SAVE_END);
    if (t == NULL) return;
    t->work.version = l->save_version;
    t->work.final = l->phase == LEADER_SAVING_LAST;
    t->serial = l->save_serial;
    l->save_ending = true;
}

static void store(peer *p, uint16_t stage, uint32_t first, uint32_t count, blob_id blob) {
    task *t = task_add(p, JOB_SAVE);
    if (t == NULL) {
        peer_release(p, &blob);
        BRAID_ASSERT(p->task_count == PEER_MAX_TASKS);
        return;
    }
    t->work.stage = stage;
    t->work.first = first;
    t->work.count = count;
    t->work.in = blob;
    t->serial = p->leader.save_serial;
    t->work.version = p->leader.save_version;
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
    if (!peer_is_leader(p) || !p->leader.saving || q->stage == p->stage) return;
    ask_again(p, q->stage, q->first);
}

void save_data(peer *p, const message *msg, blob_id blob) {
    const message_get *get = &msg->u.data.get;
    for (uint32_t i = 0; peer_is_leader(p) && i < PEER_MAX_PULLS; i++) {
        pull *q = &p->pulls[i];
        if (!q->used || q->what != GET_STATE || q->from != msg->sender || q->stage != get->stage || q->first != get->first || q->count != get->count) continue;
        if (q->version != get->version) continue;  // the answer to an older question
        q->used = false;
        if (!p->leader.saving || get->version != p->leader.save_version) break;
        store(p, get->stage, get->first, get->count, blob);
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
    if (l->phase != LEADER_SAVING_LAST) return;
    l->phase = LEADER_OVER;
    tell t = {.kind = TELL_END, .iteration = l->save_version, .hash = r->hash, .failed = p->run.save && failed};
    peer_tell(p, &t);
    leader_dismiss(p, p->run.save && failed);
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
        } else if (!current) peer_release(p, &out);
        else store(p, t->work.stage, t->work.first, t->work.count, out);
        return;
    }
    blob_id in = t->work.in;
    peer_release(p, &in);
    if (!current) return;
    l->save_failed |= r->failed;
    l->save_under_way--;
}
