// The leader's part of an iteration's end: CLOSE, BEGIN AGGREGATION, FINAL (docs/protocol.md, The
// life of an iteration).
#include "protocol/leader/leader.h"

#include <math.h>
#include <string.h>

// ---- what counts --------------------------------------------------------------------------------

// Rule J14.
static void move_relay(peer *p) {
    member_id who = leader_move_choose(p, leader_can_spare);
    if (who == 0) return;
    leader_move_begin(p, leader_keeper(p, member_find(p, who)));
    leader_remove(p, who, EXPEL_MOVED);
}

void on_settled(peer *p, const message *msg) {
    const message_settled *body = &msg->u.settled;
    uint32_t m = body->subject.m;
    uint32_t slot = m % p->run.slots;
    if (!peer_is_leader(p) || p->state.owner[slot] != msg->sender || p->state.owner_term[slot] != body->subject.owner_term || body->path.stages != p->run.stages) return;
    uint32_t sum = 0;
    for (uint16_t s = 0; s < p->run.stages; s++) sum += body->rev[s];
    settled_microbatch *known = &p->leader->settled[m];
    if (known->known && sum <= known->rev_sum) return;
    known->known = true;
    known->rev_sum = sum;
    known->body = *body;
    if (peer_breaks(p, PEER_MUTANT_MOVES_AT_WORK)) move_relay(p);
}

// True if the microbatch needs no more work. Elastic: a dead owner's microbatches are not settled,
// because its own sums died with it.
static bool is_settled(const peer *p, uint32_t m) { return p->leader->settled[m].known && !private_orphan(p, m); }

static bool all_settled(const peer *p) {
    for (uint32_t m = 0; m < p->microbatches; m++)
        if (microbatch_planned(p, m) && !is_settled(p, m) && !private_left_out(p, m)) return false;
    return true;
}

// Candidates for the counted set: planned microbatches; for a second CLOSE only those that the
// first one counted (rule P8).
static bool may_count(const peer *p, uint32_t m) { return !p->state.has_close || bitset_has(p->state.close.counted.words, m); }

static void append_close(peer *p) {
    peer_leader *l = p->leader;
    log_entry entry = {.kind = LOG_CLOSE};
    log_close *c = &entry.u.close;
    c->iteration = p->state.iteration;
    l->eval_loss = 0;
    l->eval_tokens = 0;
    for (uint32_t m = 0; m < p->microbatches; m++) {
        const message_settled *body = &l->settled[m].body;
        if (m >= p->run.microbatches) {
            if (p->state.has_close) continue;  // reported already
            l->eval_loss += body->loss;
            l->eval_tokens += body->tokens;
            continue;
        }
        if (!may_count(p, m)) continue;
        if (private_left_out(p, m)) {
            if (peer_breaks(p, PEER_MUTANT_DIVIDES_BY_ALL)) c->tokens += body->tokens;
            continue;
        }
        bitset_add(body->is_void ? c->voided.words : c->counted.words, m);
        c->tokens += body->tokens;
        c->loss += body->loss;  // in index order, as the one-process run does
    }
    if (p->state.has_close) c->voided = p->state.close.voided;
    if (!log_append(p, &entry)) return;
    l->close = *c;
    l->phase = LEADER_CLOSING;
}

// ---- rounds -------------------------------------------------------------------------------------

static bool holder_at(const peer *p, uint32_t m, uint16_t s, member_id *holder) {
    const settled_microbatch *known = &p->leader->settled[m];
    *holder = known->body.path.member[s];
    return bitset_has(p->leader->close.counted.words, m);
}

static bool state_agreed_by(const stage_round *r, member_id who) {
    for (uint32_t i = 0; i < r->states; i++)
        if (r->state_member[i] == who) return r->state_agreed && hash_equal(&r->state_root[i], &r->agreed_state);
    return false;
}

// Invariant I8: every counted microbatch has a live holder in the stage, and its state agrees with
// the others'.
static bool manifest_possible(const peer *p, uint16_t s) {
    for (uint32_t m = 0; m < p->run.microbatches; m++) {
        member_id holder;
        if (!holder_at(p, m, s, &holder)) continue;
        if (!member_live(p, holder) || !state_agreed_by(&p->leader->round[s], holder)) return false;
    }
    return p->leader->round[s].state_agreed;
}

bool leader_sees_at_version(const peer *p, const cluster_member *m) {
    if (m->contact == NO_CONTACT) return p->ready && p->version == p->state.iteration;
    const cluster_contact *c = &p->cluster->contacts[m->contact];
    return c->link == LINK_UP && c->beat.ready == p->state.iteration + 1;
}

static void deal_blocks(const peer *p, uint16_t s, message_begin *b) {
    member_id able[WIRE_MAX_STAGE_MEMBERS];
    uint32_t count = 0, blocks = p->run.blocks[s];
    for (uint32_t i = 0; i < p->cluster->member_count && count < WIRE_MAX_STAGE_MEMBERS; i++)
        if (p->cluster->members[i].stage == s && leader_sees_at_version(p, &p->cluster->members[i])) able[count++] = p->cluster->members[i].id;
    for (uint16_t i = 0; i < b->parts && count == 0; i++) able[count++] = b->part[i].member;
    uint32_t segments = (blocks + PEER_SEGMENT_BLOCKS - 1) / PEER_SEGMENT_BLOCKS, next = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t share = segments / count + (i < segments % count);
        if (share == 0) continue;
        message_block_owner *o = &b->owner[b->owners++];
        o->member = able[i];
        o->first = next * PEER_SEGMENT_BLOCKS;
        next += share;
        uint32_t end = next * PEER_SEGMENT_BLOCKS;
        o->count = (end < blocks ? end : blocks) - o->first;
    }
}

static message_part *part_of(message_begin *b, member_id who) {
    for (uint16_t i = 0; i < b->parts; i++)
        if (b->part[i].member == who) return &b->part[i];
    if (b->parts == WIRE_MAX_STAGE_MEMBERS) return NULL;
    b->part[b->parts].member = who;
    return &b->part[b->parts++];
}

static void send_begin(peer *p, uint16_t s) {
    stage_round *r = &p->leader->round[s];
    r->sent_ns = p->now;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->keeps != s) continue;
        peer_compose(p, MESSAGE_BEGIN_AGGREGATION)->u.begin = r->begin;
        peer_send(p, m->contact, 0);
    }
}

static void begin_round(peer *p, uint16_t s) {
    stage_round *r = &p->leader->round[s];
    message_begin *b = &r->begin;
    memset(b, 0, sizeof *b);
    b->stage = s;
    b->term = p->cluster->own_term;
    uint64_t before_first = (p->cluster->own_term - 1) << 32;  // attempts are numbered uniquely over all leaders
    if (r->round < before_first) r->round = before_first;
    if (r->round == before_first || !peer_breaks(p, PEER_MUTANT_ONE_ROUND)) r->round++;
    b->round = r->round;
    b->close_index = p->leader->close_index;
    b->tokens = p->leader->close.tokens;
    for (uint32_t m = 0; m < p->run.microbatches; m++) {
        member_id holder;
        message_part *part = holder_at(p, m, s, &holder) ? part_of(b, holder) : NULL;
        if (part != NULL) bitset_add(part->set.words, m);
    }
    deal_blocks(p, s, b);
    r->running = true;
    r->dirty = false;
    if (!p->run.reproducible) {  // results of earlier attempts are discarded, also by standbys
        r->reports = r->standbys = 0;
        r->agreed_ns = 0;
    }
    send_begin(p, s);
}

void on_mismatch(peer *p, const message *msg) {
    const message_mismatch *body = &msg->u.mismatch;
    if (!peer_is_leader(p) || body->stage >= p->run.stages) return;
    stage_round *r = &p->leader->round[body->stage];
    if (body->round == r->round && body->term == p->cluster->own_term) r->dirty = true;
}

void close_member_gone(peer *p, member_id gone) {
    if (!peer_is_leader(p)) return;
    for (uint16_t s = 0; s < p->run.stages; s++) {
        stage_round *r = &p->leader->round[s];
        for (uint32_t i = 0; i < r->reports; i++) {
            if (r->reporter[i] != gone) continue;
            r->reports--;
            r->reporter[i] = r->reporter[r->reports];
            r->root[i] = r->root[r->reports];
            i--;
        }
        for (uint32_t i = 0; i < r->states; i++) {
            if (r->state_member[i] != gone) continue;
            r->states--;
            r->state_member[i] = r->state_member[r->states];
            r->state_root[i] = r->state_root[r->states];
            i--;
        }
        for (uint16_t i = 0; i < r->begin.parts; i++)
            if (r->begin.part[i].member == gone) r->running = false;
        for (uint16_t i = 0; i < r->begin.owners; i++)
            if (r->begin.owner[i].member == gone) r->running = false;
    }
}

static bool speaks_for(const peer *p, member_id who, uint16_t stage) {
    const cluster_member *m = member_find(p, who);
    return m != NULL && m->stage == stage;
}

// ---- reports ------------------------------------------------------------------------------------

void on_reduced(peer *p, const message *msg) {
    const message_reduced *body = &msg->u.reduced;
    if (!peer_is_leader(p) || body->stage >= p->run.stages || msg->iteration != p->state.iteration) return;
    stage_round *r = &p->leader->round[body->stage];
    bool of_the_round = body->term == p->cluster->own_term && (p->run.reproducible || body->round == r->round);
    if (standby_keeps(p, msg->sender, body->stage) && (p->run.reproducible || of_the_round)) standby_on_reduced(p, msg);
    if (body->tensors != p->run.tensors[body->stage] || !speaks_for(p, msg->sender, body->stage)) return;
    if (!of_the_round || body->round < r->first) return;
    uint32_t at = 0;
    while (at < r->reports && r->reporter[at] != msg->sender) at++;
    if (at == WIRE_MAX_STAGE_MEMBERS) return;
    if (at == r->reports) r->reports++;
    r->reporter[at] = msg->sender;
    r->root[at] = body->root;
    r->overflow |= body->overflow;
    memcpy(r->norm2, body->norm2, body->tensors * sizeof(double));
}

// True if the membership is about to end, by a removal or a readmission. Its results are not
// counted on (rule T5).
static bool goes(const peer *p, const cluster_member *m) { return m->expelling || (m->contact != NO_CONTACT && p->cluster->contacts[m->contact].joining); }
static bool stays_at_version(const peer *p, const cluster_member *m) { return !goes(p, m) && leader_sees_at_version(p, m); }

static bool somebody_stays(const peer *p, uint16_t s) {
    for (uint32_t i = 0; i < p->cluster->member_count; i++)
        if (p->cluster->members[i].stage == s && stays_at_version(p, &p->cluster->members[i])) return true;
    return false;
}

// At least min(2, members at version t) report one result hash: a copy of the results must survive
// the death of any member.
static bool stage_agrees(peer *p, uint16_t s) {
    stage_round *r = &p->leader->round[s];
    uint32_t able = 0, same = 0;
    for (uint32_t i = 0; i < r->reports; i++)
        if (!hash_equal(&r->root[i], &r->root[0])) return false;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        bool counts = m->stage == s || (m->keeps == s && peer_breaks(p, PEER_MUTANT_COUNTS_SHADOWS));
        if (!counts || !stays_at_version(p, m)) continue;
        able++;
        for (uint32_t j = 0; j < r->reports; j++) same += r->reporter[j] == m->id;  // only live reporters
    }
    if (same == 0 || same < (able < 2 ? able : 2)) return false;
    r->result_root = r->root[0];
    return standby_lets_final_go(p, s);
}

void on_state(peer *p, uint32_t from, const message *msg) {
    const message_state *body = &msg->u.state;
    if (!peer_is_leader(p)) fetch_attested(p, from, msg);
    if (!peer_is_leader(p) || body->stage >= p->run.stages || body->version != p->state.iteration || msg->iteration != p->state.iteration) return;
    if (standby_keeps(p, msg->sender, body->stage)) standby_on_state(p, msg);
    if (!speaks_for(p, msg->sender, body->stage)) return;
    stage_round *r = &p->leader->round[body->stage];
    for (uint32_t i = 0; i < r->states; i++)
        if (r->state_member[i] == msg->sender) return;
    if (r->states == WIRE_MAX_STAGE_MEMBERS) return;
    r->state_member[r->states] = msg->sender;
    r->state_root[r->states++] = body->state_root;
    uint32_t best = 0;
    for (uint32_t i = 0; i < r->states; i++) {
        uint32_t votes = 0;
        for (uint32_t j = 0; j < r->states; j++) votes += hash_equal(&r->state_root[i], &r->state_root[j]);
        if (votes <= best) continue;
        best = votes;
        r->agreed_state = r->state_root[i];
    }
    r->state_agreed = true;
    p->leader->attest_ns = 0;
    for (uint32_t i = 0; i < r->states; i++)
        if (!hash_equal(&r->state_root[i], &r->agreed_state)) leader_remove(p, r->state_member[i], EXPEL_DIVERGED);
}

// ---- FINAL --------------------------------------------------------------------------------------

// Squared norm of the averaged gradient, added in the model's canonical order of tensors.
static double total_norm2(const peer *p) {
    uint32_t next[WIRE_MAX_STAGES] = {0};
    double sum = 0;
    for (uint32_t i = 0; i < p->run.model_tensors; i++) {
        uint16_t s = p->run.tensor_stage[i];
        sum += p->leader->round[s].norm2[next[s]++];
    }
    return sum;
}

static void decide(peer *p) {
    peer_leader *l = p->leader;
    core_job *t = jobs_add(p, JOB_DECIDE);
    if (t == NULL) return;
    bool overflow = false;
    for (uint16_t s = 0; s < p->run.stages; s++) overflow |= l->round[s].overflow;
    for (uint32_t m = 0; m < p->run.microbatches; m++) overflow |= bitset_has(l->close.counted.words, m) && l->settled[m].body.overflow;
    l->norm2 = l->close.tokens == 0 ? 0 : overflow ? (double)NAN : total_norm2(p);
    t->work.norm2 = l->norm2;
    t->work.tokens = l->close.tokens;
    t->serial = ++l->decisions;
    l->phase = LEADER_DECIDING;
}

bool final_is_hopeless(const peer *p, const log_final *f) { return p->run.max_skipped != 0 && f->skip && f->skipped >= p->run.max_skipped; }

// FINAL carries the count, so a new leader, or one that has read a snapshot only, continues it. An
// iteration without any computed microbatch, for want of its data, says nothing about the weights
// and is not counted.
static uint32_t skipped_in_a_row(const peer *p, bool skip) {
    const log_final *before = &p->state.final.u.final;
    uint32_t count = p->state.has_final && before->skip ? before->skipped : 0;
    const log_close *close = &p->leader->close;
    bool computed = close->tokens > 0 || bitset_count(close->voided.words, WIRE_SET_WORDS) > 0;
    if (!skip) return 0;
    return count + (computed && count < UINT32_MAX);
}

void leader_decided(peer *p, const core_job *t, const job_result *r) {
    peer_leader *l = p->leader;
    if (!p->cluster->leads || l->phase != LEADER_DECIDING || t->serial != l->decisions) return;
    memset(&l->final, 0, sizeof l->final);
    l->final.kind = LOG_FINAL;
    log_final *f = &l->final.u.final;
    f->iteration = p->state.iteration;
    f->skip = r->skip;
    f->skipped = skipped_in_a_row(p, r->skip);
    f->last = p->state.iteration + 1 >= p->run.iterations || p->drain_ns != 0 || final_is_hopeless(p, f);
    f->close_index = l->close_index;
    f->norm2 = l->norm2;
    f->clip = r->clip;
    f->learning_rate = r->learning_rate;
    f->bias1 = r->bias1;
    f->bias2 = r->bias2;
    f->stages = p->run.stages;
    for (uint16_t s = 0; s < p->run.stages; s++) {
        f->round[s] = l->round[s].round;
        f->result_root[s] = l->round[s].result_root;
        f->state_root[s] = l->round[s].agreed_state;
    }
    l->phase = LEADER_DECIDED;
}

// True if a holder of the microbatch died in a stage with an incomplete aggregation (rule T7).
static bool sum_is_lost(peer *p, uint32_t m) {
    bool lost = false;
    for (uint16_t s = 0; s < p->run.stages && !lost; s++) {
        member_id holder;
        lost = holder_at(p, m, s, &holder) && !member_live(p, holder) && !stage_agrees(p, s);
    }
    return lost;
}

// True if a second CLOSE is needed (rule P8). Elastic: a counted microbatch cannot be recomputed,
// because its data are away, and a holder died before its stage was aggregated.
static bool must_leave_out(peer *p) {
    bool must = false;
    for (uint32_t m = 0; m < p->run.microbatches; m++) {
        if (!bitset_has(p->leader->close.counted.words, m)) continue;
        if (!private_left_out(p, m)) {
            if (!p->leader->settled[m].known) return false;  // a new leader waits for SETTLED
            continue;
        }
        must = must || sum_is_lost(p, m);
    }
    return must;
}

static bool must_be_made(peer *p, uint32_t m) {
    if (p->leader->phase == LEADER_RUNNING) return microbatch_planned(p, m) && !is_settled(p, m);
    return m < p->run.microbatches && sum_is_lost(p, m);
}

// True if the weights are those of the start or of a complete checkpoint, so that no checkpoint is
// needed.
static bool nothing_to_save(peer *p) {
    tell t = {.kind = TELL_END, .iteration = p->state.iteration};
    bool saved = p->run.save && !p->leader->saving && rollback_weights(p, p->state.iteration, &t.hash);
    if (!saved && (p->state.iteration != p->state.start_version || p->state.fence != 0)) return false;
    p->leader->phase = LEADER_OVER;
    p->leader->end_appended = false;
    if (saved) peer_tell(p, &t);
    if (p->leader->unlogged) leader_dismiss(p, true);
    return true;
}

// The run is to end, and this iteration cannot, because private data are away or its end was
// dropped. Nothing of it is in the state yet, so version t is saved.
static void end_unfinished(peer *p) {
    uint32_t m = 0;
    while (m < p->microbatches && !(private_given_up(p, m) && must_be_made(p, m))) m++;
    bool may_come = p->raft.last != p->state.position && !p->leader->unlogged;  // an admission may be in the log's queue
    bool in_vain = p->leader->saving && p->leader->save_failed;  // a checkpoint that failed is given up first; the last one begins after it
    bool given_up = m < p->microbatches;
    if ((!given_up && !p->leader->drop) || may_come || in_vain || p->config.kind != MEMBER_DATA) return;
    if (given_up) private_tell_unfinished(p, m);
    if (!given_up && nothing_to_save(p)) return;
    p->leader->phase = LEADER_SAVING_LAST;
    // a checkpoint that has begun continues: restarted, late answers would be taken for new ones
    if (!p->leader->saving || p->leader->save_ending) save_begin(p, p->state.iteration);
}

static bool remains_member(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m != NULL && !goes(p, m);
}

// True if each stage has a member that stays and can make the next version. Otherwise the
// aggregation is repeated.
static bool next_version_is_safe(const peer *p, uint16_t s) {
    const stage_round *r = &p->leader->round[s];
    if (p->leader->close.tokens == 0) return somebody_stays(p, s);
    for (uint32_t i = 0; i < r->reports; i++)
        if (remains_member(p, r->reporter[i])) return true;
    for (uint32_t i = 0; i < r->standbys; i++)
        if (remains_member(p, r->standby[i]) && hash_equal(&r->standby_root[i], &r->result_root)) return true;  // not of an older attempt or CLOSE
    return false;
}

static bool all_are_made(const peer *p) {
    for (uint16_t s = 0; s < p->run.stages; s++)
        if (!next_version_is_safe(p, s)) return false;
    return true;
}

// ---- the order of it ----------------------------------------------------------------------------

static void reducing(peer *p) {
    peer_leader *l = p->leader;
    bool all = true, nothing = l->close.tokens == 0;
    for (uint16_t s = 0; s < p->run.stages; s++) {
        stage_round *r = &l->round[s];
        if (nothing ? r->state_agreed && somebody_stays(p, s) : stage_agrees(p, s)) continue;
        all = false;
        if (nothing) continue;
        bool due = p->now >= r->sent_ns + TIMING_REPEAT_NS;
        if ((!r->running || (r->dirty && due)) && manifest_possible(p, s)) begin_round(p, s);
        else if (r->running && due) send_begin(p, s);
        peer_wake_at(p, p->now + TIMING_REPEAT_NS);
    }
    if (all) decide(p);
}

// True if the host wants the end at once, or the log takes no entry: the iteration under way is
// dropped. A FINAL on its way into a log that can still be written comes first, because it may be
// committed.
static bool is_dropped(peer *p) {
    peer_leader *l = p->leader;
    bool begun = l->phase >= LEADER_RUNNING && (l->phase < LEADER_FINISHING || (l->phase == LEADER_FINISHING && l->unlogged));
    if (!l->drop || !begun) return false;
    end_unfinished(p);
    return l->phase != LEADER_FINISHING;
}

void close_tick(peer *p) {
    peer_leader *l = p->leader;
    if (is_dropped(p)) return;
    switch (l->phase) {
    case LEADER_RUNNING:
        if (p->state.started && all_settled(p)) append_close(p);
        else end_unfinished(p);
        break;
    case LEADER_REDUCING:
        reducing(p);
        if (l->phase == LEADER_REDUCING && private_elastic(p) && must_leave_out(p)) append_close(p);
        if (l->phase == LEADER_REDUCING) end_unfinished(p);
        break;
    case LEADER_DECIDED:
        // a checkpoint of version t is read from the members; FINAL(t) would change it under the
        // reader
        if (!all_are_made(p)) l->phase = LEADER_REDUCING;
        else if (!l->saving && !l->checkpoint_due && !l->awaits_save && log_append(p, &l->final)) l->phase = LEADER_FINISHING;
        break;
    default:
        break;
    }
}

static void rounds_anew(peer *p) {
    for (uint16_t s = 0; s < p->run.stages; s++) {
        stage_round *r = &p->leader->round[s];
        r->reports = 0;
        r->agreed_ns = 0;
        r->running = r->dirty = r->overflow = false;
        r->first = r->round + 1;
    }
}

static void tell_eval(peer *p) {
    peer_leader *l = p->leader;
    if (l->eval_tokens == 0) return;
    tell e = {.kind = TELL_EVAL, .iteration = p->state.iteration, .tokens = l->eval_tokens, .loss = l->eval_loss / (double)l->eval_tokens};
    peer_tell(p, &e);
    l->eval_tokens = 0;
}

void leader_applied(peer *p, const log_entry *entry) {
    peer_leader *l = p->leader;
    if (entry->kind == LOG_OWNER)  // the new owner settles them again
        for (uint32_t m = entry->u.owner.slot; m < p->microbatches; m += p->run.slots) l->settled[m].known = false;
    if (entry->kind == LOG_CLOSE) {
        l->close_index = entry->index;
        l->phase = LEADER_REDUCING;
        rounds_anew(p);
        tell_eval(p);
        if (peer_breaks(p, PEER_MUTANT_MOVES_WITH_SUM)) move_relay(p);
    }
    if (entry->kind == LOG_RUN && entry->u.run.generation > 1) rollback_lead_again(p);
    if (entry->kind == LOG_END) leader_dismiss(p, false);
    if (entry->kind != LOG_FINAL) return;
    if (!entry->u.final.last) {
        leader_release_leaving(p);
        bool at_other_times = peer_breaks(p, PEER_MUTANT_MOVES_WITH_SUM) || peer_breaks(p, PEER_MUTANT_MOVES_AT_WORK);
        if (!at_other_times) move_relay(p);
    }
    leader_begin_iteration(p);
    leader_save_when_due(p);
}

void leader_attest(peer *p) {
    peer_leader *l = p->leader;
    if (p->now < l->attest_ns) return;
    l->attest_ns = p->now + TIMING_ATTEST_NS;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        const stage_round *r = &l->round[m->keeps];
        cluster_contact *c = m->contact == NO_CONTACT ? NULL : &p->cluster->contacts[m->contact];
        if (c == NULL || c->link != LINK_UP || c->beat.ready != 0 || (!r->state_agreed && !r->kept)) continue;
        peer_wake_at(p, l->attest_ns);
        if (c->attested_version == p->state.iteration && p->now < c->attested_ns + TIMING_REPEAT_NS) continue;
        message_state *state = &peer_compose(p, MESSAGE_STATE)->u.state;
        state->stage = m->keeps;
        state->version = p->state.iteration;
        state->state_root = r->state_agreed ? r->agreed_state : r->kept_root;
        if (!peer_send(p, m->contact, 0)) continue;
        c->attested_version = p->state.iteration;
        c->attested_ns = p->now;
    }
}

bool leader_agreed_state(const peer *p, braid_hash *root) {
    const stage_round *r = &p->leader->round[p->stage];
    if (peer_is_leader(p) && r->state_agreed) *root = r->agreed_state;
    return peer_is_leader(p) && r->state_agreed;
}
