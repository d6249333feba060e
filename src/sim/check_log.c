// The entries that the log may contain.
#include "sim/inside.h"

#include "base/bitset.h"
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

void sim_check_close_numbers(sim_cluster *s, const log_close *close) {
    const sim_iteration *r = &s->reference->iteration[close->iteration];
    if (memcmp(&close->counted, &r->counted, sizeof r->counted) != 0 || memcmp(&close->voided, &r->voided, sizeof r->voided) != 0)
        sim_fail(s, "CLOSE of iteration %llu counts %u and voids %u, wanted %u and %u", (unsigned long long)close->iteration,
                 bitset_count(close->counted.words, WIRE_SET_WORDS), bitset_count(close->voided.words, WIRE_SET_WORDS),
                 bitset_count(r->counted.words, WIRE_SET_WORDS), bitset_count(r->voided.words, WIRE_SET_WORDS));
    if (close->tokens != r->tokens) sim_fail(s, "CLOSE counts %llu tokens, wanted %llu", (unsigned long long)close->tokens, (unsigned long long)r->tokens);
    if (memcmp(&close->loss, &r->loss, sizeof r->loss) != 0) sim_fail(s, "CLOSE has loss %.17g, wanted %.17g", close->loss, r->loss);
}

// A CLOSE omits only microbatches without an owner, apart from void ones. A second CLOSE may only
// omit more.
static void check_left_out(sim_cluster *s, const log_close *close, const log_close *first) {
    unsigned long long t = close->iteration;
    for (uint32_t m = 0; m < s->c->microbatches; m++) {
        bool counted = bitset_has(close->counted.words, m), may_count = !first || bitset_has(first->counted.words, m);
        if (counted && !may_count) sim_fail(s, "I4: the second CLOSE of iteration %llu counts what the first did not", t);
        if (counted || !may_count || bitset_has(close->voided.words, m)) continue;
        s->stats->left_out++;
        if (sim_check_member_live(s, s->checker.slot_owner[m % s->c->slots])) sim_fail(s, "I4: CLOSE of iteration %llu leaves m=%u out, whose owner is there", t, m);
    }
    if (first && memcmp(&close->voided, &first->voided, sizeof first->voided) != 0) sim_fail(s, "I4: the second CLOSE of iteration %llu calls others void", t);
}

static void check_close(sim_cluster *s, const log_entry *entry) {
    sim_checker *k = &s->checker;
    const log_close *close = &entry->u.close;
    if (close->iteration != k->version || close->iteration >= s->c->iterations) {
        sim_fail(s, "I4: CLOSE of iteration %llu in iteration %llu", (unsigned long long)close->iteration, (unsigned long long)k->version);
        return;
    }
    bool again = k->closed && k->close.iteration == close->iteration;
    if (again && !s->c->elastic) sim_fail(s, "I4: a second CLOSE of iteration %llu", (unsigned long long)close->iteration);
    if (s->c->elastic) check_left_out(s, close, again ? &k->close : NULL);
    if (s->reference) sim_check_close_numbers(s, close);
    if (!again) s->stats->voided += bitset_count(close->voided.words, WIRE_SET_WORDS);
    k->closed = true;
    k->close = *close;
    k->close_index = entry->index;
    if (s->c->elastic) k->closes[close->iteration] = *close;
}

static void check_final_numbers(sim_cluster *s, const log_final *final) {
    const sim_iteration *r = &s->reference->iteration[final->iteration];
    if (final->skip != r->skip) sim_fail(s, "FINAL of iteration %llu says skip = %d", (unsigned long long)final->iteration, final->skip);
    if (r->skip || final->skip) return;
    if (memcmp(&final->norm2, &r->norm2, sizeof r->norm2) != 0) sim_fail(s, "FINAL has norm2 %.17g, wanted %.17g", final->norm2, r->norm2);
    if (memcmp(&final->clip, &r->clip, sizeof r->clip) != 0 || memcmp(&final->learning_rate, &r->learning_rate, sizeof r->learning_rate) != 0 ||
        memcmp(&final->bias1, &r->bias1, sizeof r->bias1) != 0 || memcmp(&final->bias2, &r->bias2, sizeof r->bias2) != 0)
        sim_fail(s, "FINAL of iteration %llu has other factors than the one-process run", (unsigned long long)final->iteration);
    for (uint16_t i = 0; i < s->c->stages; i++)
        if (!hash_equal(&final->result_root[i], sim_reference_result(s->reference, final->iteration, i)))
            sim_fail(s, "I6: FINAL of iteration %llu has a wrong result root for stage %u", (unsigned long long)final->iteration, i);
}

static void check_final(sim_cluster *s, const log_entry *entry) {
    sim_checker *k = &s->checker;
    const log_final *final = &entry->u.final;
    if (final->iteration != k->version || final->iteration >= s->c->iterations) {
        sim_fail(s, "I4: FINAL of iteration %llu in iteration %llu", (unsigned long long)final->iteration, (unsigned long long)k->version);
        return;
    }
    if (!k->closed || k->close.iteration != final->iteration || final->close_index != k->close_index)
        sim_fail(s, "I4: FINAL of iteration %llu does not close the newest CLOSE", (unsigned long long)final->iteration);
    if (final->last != (final->iteration + 1 == s->c->iterations) && !k->drained) sim_fail(s, "FINAL of iteration %llu says last = %d", (unsigned long long)final->iteration, final->last);
    if (s->c->elastic) k->finals[final->iteration] = *final;
    if (s->reference) sim_check_final_numbers(s, final);
}

void sim_check_final_numbers(sim_cluster *s, const log_final *final) {
    check_final_numbers(s, final);
    for (uint16_t i = 0; i < s->c->stages; i++)
        if (!hash_equal(&final->state_root[i], sim_reference_state(s->reference, final->iteration, i)))
            sim_fail(s, "I8: FINAL of iteration %llu has a wrong state root for stage %u", (unsigned long long)final->iteration, i);
}

static void members_compact(sim_checker *k) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < k->members; i++)
        if (!k->member[i].expelled) k->member[kept++] = k->member[i];
    k->members = kept;
}

static void expelled(sim_cluster *s, sim_log_member *m) {
    m->expelled = true;
    sim_check_expelled(s, m);
}

static void member_added(sim_cluster *s, const log_entry *entry) {
    sim_checker *k = &s->checker;
    const log_member *body = &entry->u.member;
    if (k->members == SIM_MAX_LOG_MEMBERS) members_compact(k);
    if (k->members == SIM_MAX_LOG_MEMBERS) {
        sim_fail(s, "more members than a run of this size can have");
        return;
    }
    k->member[k->members++] = (sim_log_member){.member = entry->index, .entry = *body, .shadow = body->kind == MEMBER_SHADOW};
    // A peer is in one stage at a time: a new admission ends its earlier membership.
    for (uint32_t i = 0; i + 1 < k->members; i++)
        if (!k->member[i].expelled && id_equal(&k->member[i].entry.peer, &body->peer)) expelled(s, &k->member[i]);
}

// A standby is promoted only when its stage has no other worker.
static void check_promotion(sim_cluster *s, const log_entry *entry) {
    sim_log_member *promoted = NULL;
    for (uint32_t i = 0; i < s->checker.members; i++) {
        sim_log_member *m = &s->checker.member[i];
        if (m->member == entry->u.promote.member && m->shadow && !m->expelled) promoted = m;
    }
    if (!promoted) return;  // it was removed meanwhile, and all peers ignore the entry
    for (uint32_t i = 0; i < s->checker.members; i++) {
        const sim_log_member *m = &s->checker.member[i];
        if (m->shadow || m->expelled || m->entry.stage != promoted->entry.stage) continue;
        sim_fail(s, "shadow #%llu of stage %u is promoted while #%llu lives", (unsigned long long)promoted->member, promoted->entry.stage, (unsigned long long)m->member);
    }
    promoted->shadow = false;
    s->stats->promotions++;
}

// The run begins, or rolls back to an earlier version.
static void check_run(sim_cluster *s, const log_entry *entry) {
    sim_checker *k = &s->checker;
    const log_run *run = &entry->u.run;
    if (run->generation != k->generation + 1) sim_fail(s, "generation %llu begins after generation %llu", (unsigned long long)run->generation, (unsigned long long)k->generation);
    if (run->start_version > k->version || run->start_version < s->c->start_version || (!k->started && run->start_version != s->c->start_version))
        sim_fail(s, "the run begins at version %llu, and is at %llu", (unsigned long long)run->start_version, (unsigned long long)k->version);
    k->generation = run->generation;
    k->start_version = run->start_version;
    k->started = true;
    if (run->generation == 1) return;
    s->stats->rollbacks++;
    s->stats->again_iterations += k->version - run->start_version;
    k->fence = entry->index;
    k->version = run->start_version;
    k->closed = k->has_final = k->finished = false;
    memset(k->commit, 0, (size_t)s->c->microbatches * s->c->stages * sizeof *k->commit);
    sim_crash_after_rollback(s);
}

static bool is_member(const sim_checker *k, const braid_id *id) {
    for (uint32_t i = 0; i < k->members; i++)
        if (!k->member[i].expelled && id_equal(&k->member[i].entry.peer, id)) return true;
    return false;
}

// True if the only owner of some private data is gone.
static bool lacks_private_data(const sim_cluster *s) {
    for (uint16_t share = 0; share < s->run.shares && !s->c->elastic; share++)
        if (!is_member(&s->checker, &s->checker.share[share])) return true;
    return false;
}

void sim_check_unfinished(sim_cluster *s, uint32_t node) {
    sim_checker *k = &s->checker;
    if (!k->drained || !lacks_private_data(s)) sim_fail(s, "%s ends the run in an iteration that could be waited for", s->node[node].name);
    k->given_up = true;
}

// The missing owners may have been admitted meanwhile, with the state that the last checkpoint
// needs.
static void check_ending(sim_cluster *s) {
    sim_checker *k = &s->checker;
    k->unfinished = !k->finished && k->given_up;
    k->finished |= k->unfinished;
    s->stats->unfinished += k->unfinished;
    if (!k->finished || !k->saved_last) sim_fail(s, "the run ends before its last checkpoint is written");
    k->ended = true;
}

static void committed(sim_cluster *s, const log_entry *entry) {
    sim_checker *k = &s->checker;
    switch (entry->kind) {
    case LOG_RUN:
        if (k->ended) sim_fail(s, "a run that has ended rolls back");
        check_run(s, entry);
        break;
    case LOG_MEMBER: member_added(s, entry); break;
    case LOG_PROMOTE: check_promotion(s, entry); break;
    case LOG_VOTERS: s->stats->voter_changes++; break;
    case LOG_OWNER:
        k->owner[k->owners++ % SIM_MAX_OWNERS] = (sim_owner){entry->u.owner.slot, entry->index};
        k->slot_owner[entry->u.owner.slot] = entry->u.owner.member;
        sim_check_owner(s, &entry->u.owner);
        break;
    case LOG_SHARE: k->share[entry->u.share.share] = entry->u.share.peer; break;
    case LOG_EXPEL:
        for (uint32_t i = 0; i < k->members; i++)
            if (!k->member[i].expelled && k->member[i].member == entry->u.expel.member) expelled(s, &k->member[i]);
        break;
    case LOG_CLOSE: check_close(s, entry); break;
    case LOG_FINAL:
        check_final(s, entry);
        sim_loss_final(s, entry->u.final.iteration);
        k->final = entry->u.final;
        k->has_final = true;
        k->given_up = false;
        k->version = entry->u.final.iteration + 1;
        k->finished = entry->u.final.last;
        sim_check_version_made(s);
        break;
    case LOG_END: check_ending(s); break;
    default: break;
    }
}

// The content of an entry without its term: entries of a snapshot have lost their terms.
static uint64_t content_of(const log_entry *entry) {
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    log_entry bare = *entry;
    bare.term = 0;
    size_t count = log_entry_encode(&bare, bytes, sizeof bytes);
    return count == 0 ? 0 : sha256_short(bytes, count);
}

void sim_check_applied(sim_cluster *s, uint32_t node, const log_entry *entry) {
    sim_checker *k = &s->checker;
    uint64_t content = content_of(entry);
    sim_check_move_applied(s, node, entry);
    if (entry->index <= k->committed) {
        if (k->entry[entry->index] != content) sim_fail(s, "%s takes something else for entry %llu of the log", s->node[node].name, (unsigned long long)entry->index);
        return;
    }
    if (entry->index != k->committed + 1) {
        sim_fail(s, "%s applies entry %llu, and no peer has applied those after %llu", s->node[node].name, (unsigned long long)entry->index, (unsigned long long)k->committed);
        return;
    }
    if (entry->index >= k->entries_room) {
        k->entries_room = k->entries_room ? 2 * k->entries_room : 256;
        k->entry = realloc(k->entry, k->entries_room * sizeof *k->entry);
        BRAID_ALLOCATED(k->entry, k->entries_room * sizeof *k->entry);
    }
    k->entry[entry->index] = content;
    k->committed = entry->index;
    committed(s, entry);
}
