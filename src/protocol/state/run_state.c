#include "protocol/state/run_state.h"

#include "base/id.h"

#include <string.h>

void run_state_open(run_state *s, uint16_t stages, uint16_t slots, uint16_t shares, uint64_t start_version) {
    s->stages = stages;
    s->slots = slots;
    s->shares = shares;
    s->iteration = s->first_version = s->start_version = start_version;
}

// ---- members ------------------------------------------------------------------------------------

const run_member *run_state_member_of(const run_state *s, const braid_id *peer) {
    for (uint32_t i = 0; i < s->member_count; i++)
        if (id_equal(&s->member[i].entry.peer, peer)) return &s->member[i];
    return NULL;
}

void run_state_forget_members(run_state *s) { s->member_count = 0; }

void run_state_forget_member(run_state *s, member_id id) {
    uint32_t i = 0;
    while (i < s->member_count && s->member[i].id != id) i++;
    if (i == s->member_count) return;
    memmove(&s->member[i], &s->member[i + 1], (s->member_count - i - 1) * sizeof s->member[0]);
    s->member_count--;
}

// A MEMBER entry replaces the member that the same peer was before.
static bool apply_member(run_state *s, uint64_t index, const log_member *entry) {
    if (entry->stage >= s->stages) return false;
    const run_member *older = run_state_member_of(s, &entry->peer);
    if (older != NULL) run_state_forget_member(s, older->id);
    if (s->member_count == WIRE_MAX_MEMBERS) return false;
    s->member[s->member_count++] = (run_member){.id = index, .entry = *entry};
    return true;
}

static bool apply_promote(run_state *s, uint64_t index, member_id id) {
    for (uint32_t i = 0; i < s->member_count; i++) {
        run_member *m = &s->member[i];
        if (m->id != id || m->entry.kind != MEMBER_SHADOW || m->promoted != 0) continue;
        m->promoted = index;
        return true;
    }
    return false;
}

// ---- checkpoints --------------------------------------------------------------------------------

static void forget_checkpoint(run_state *s, uint32_t at) {
    memmove(&s->checkpoint[at], &s->checkpoint[at + 1], (--s->checkpoint_count - at) * sizeof s->checkpoint[0]);
}

static bool apply_checkpoint(run_state *s, uint64_t index, const log_checkpoint *entry) {
    if (index < s->fence && entry->version > s->start_version) return false;  // the rollback has undone it
    // read again: it is known, or a newer one of its version is, or enough newer ones are
    if (s->checkpoint_count > 0 && index <= s->checkpoint[s->checkpoint_count - 1].index) return false;
    for (uint32_t i = 0; i < s->checkpoint_count; i++)
        if (s->checkpoint[i].entry.version == entry->version) forget_checkpoint(s, i--);
    if (s->checkpoint_count == RUN_STATE_CHECKPOINTS) forget_checkpoint(s, 0);
    s->checkpoint[s->checkpoint_count++] = (run_checkpoint){index, *entry};
    return true;
}

bool run_state_names_root(const run_state *s, uint64_t version, uint16_t stage, braid_hash *root) {
    for (uint32_t i = 0; i < s->checkpoint_count; i++) {
        const log_checkpoint *c = &s->checkpoint[i].entry;
        if (c->version != version || stage >= c->stages) continue;
        *root = c->state_root[stage];
        return true;
    }
    return false;
}

uint64_t run_state_newest_checkpoint(const run_state *s) {
    uint64_t newest = s->first_version;
    for (uint32_t i = 0; i < s->checkpoint_count; i++)
        if (s->checkpoint[i].entry.version > newest) newest = s->checkpoint[i].entry.version;
    return newest;
}

// ---- the run and its iterations -----------------------------------------------------------------

static void roll_back(run_state *s, const log_entry *entry) {
    const log_run *run = &entry->u.run;
    s->fence = entry->index;
    for (uint32_t i = 0; i < s->checkpoint_count; i++)
        if (s->checkpoint[i].entry.version > run->start_version) forget_checkpoint(s, i--);
    s->start_version = s->iteration = run->start_version;
    s->has_final = s->has_close = false;
}

static void apply_run(run_state *s, const log_entry *entry, run_change *c) {
    const log_run *run = &entry->u.run;
    c->first = !(s->started && run->generation > 1);
    s->started = true;
    if (entry->index <= s->fence) return;  // read again, in a snapshot or behind one: all that it undid is undone
    c->applied = true;
    c->rolled_back = run->generation > 1;
    c->newer = run->generation > s->run.generation;
    if (c->rolled_back) roll_back(s, entry);
    s->run_index = entry->index;
    s->run = *run;
}

static void apply_close(run_state *s, const log_entry *entry, run_change *c) {
    if (entry->u.close.iteration != s->iteration) return;
    c->applied = true;
    c->recounted = s->has_close && s->close_index != entry->index;
    s->has_close = true;
    s->close_index = entry->index;
    s->close = entry->u.close;
}

static void apply_final(run_state *s, const log_entry *entry, run_change *c) {
    if (entry->u.final.iteration < s->iteration && s->has_final) return;
    c->applied = true;
    c->was_closed = s->has_close;
    c->skipped = s->has_final && s->final.u.final.skip ? s->final.u.final.skipped : 0;
    s->final = *entry;
    s->has_final = true;
    s->has_close = false;
    s->iteration = entry->u.final.iteration + 1;
}

bool run_state_is_complete(const run_state *s) { return s->end_index != 0 || (s->has_final && s->final.u.final.last); }

bool run_state_goes_on(const run_state *s) { return s->started && !run_state_is_complete(s); }

bool run_state_predates(const run_state *s, uint64_t position) { return position < s->fence; }

// ---- slots --------------------------------------------------------------------------------------

static void apply_owner(run_state *s, const log_entry *entry, run_change *c) {
    const log_owner *o = &entry->u.owner;
    if (o->slot >= s->slots || s->owner[o->slot] == o->member) return;
    c->applied = true;
    c->older = s->owner[o->slot];
    s->owner[o->slot] = o->member;
    s->owner_term[o->slot] = entry->index;
}

// A peer has one share; before the start it may choose another one.
static void apply_share(run_state *s, const log_entry *entry, run_change *c) {
    const log_share *body = &entry->u.share;
    if (body->share >= s->shares) return;
    c->applied = true;
    for (uint16_t i = 0; i < s->shares; i++) {
        if (!id_equal(&s->share[i].entry.peer, &body->peer)) continue;
        s->share[i] = (run_share){0};
        c->freed_share = i;
    }
    s->share[body->share] = (run_share){.index = entry->index, .entry = *body};
}

// ---- an entry -----------------------------------------------------------------------------------

run_change run_state_apply(run_state *s, const log_entry *entry) {
    run_change c = {.freed_share = RUN_STATE_NO_SHARE};
    bool undone = entry->index < s->fence;  // of a snapshot or a store, read after the run has rolled back behind it
    switch (entry->kind) {
    case LOG_RUN: apply_run(s, entry, &c); break;
    case LOG_MEMBER: c.applied = apply_member(s, entry->index, &entry->u.member); break;
    case LOG_EXPEL:
        run_state_forget_member(s, entry->u.expel.member);
        c.applied = true;
        break;
    case LOG_PROMOTE: c.applied = apply_promote(s, entry->index, entry->u.promote.member); break;
    case LOG_OWNER: apply_owner(s, entry, &c); break;
    case LOG_SHARE: apply_share(s, entry, &c); break;
    case LOG_CLOSE:
        if (!undone) apply_close(s, entry, &c);
        break;
    case LOG_FINAL:
        if (!undone) apply_final(s, entry, &c);
        break;
    case LOG_CHECKPOINT: c.applied = apply_checkpoint(s, entry->index, &entry->u.checkpoint); break;
    case LOG_END:
        c.applied = !undone;
        if (!undone) s->end_index = entry->index;
        break;
    case LOG_VOTERS:
        c.applied = true;
        s->voters = entry->u.voters;
        s->voters_index = entry->index;
        break;
    default: break;
    }
    return c;
}

// ---- the state as entries -----------------------------------------------------------------------

typedef struct run_search {
    uint64_t after, best;  // of the entries behind `after` the first one that was found
    log_entry *out;
} run_search;

// True: the entry at `index` is nearer than what was found so far. The caller fills in its body.
static bool is_nearer(run_search *f, uint64_t index, uint8_t kind) {
    if (index <= f->after || index >= f->best) return false;
    f->best = index;
    *f->out = (log_entry){.kind = kind};
    return true;
}

static void search_members(const run_state *s, run_search *f) {
    for (uint32_t i = 0; i < s->member_count; i++) {
        const run_member *m = &s->member[i];
        if (is_nearer(f, m->id, LOG_MEMBER)) f->out->u.member = m->entry;
        if (is_nearer(f, m->promoted, LOG_PROMOTE)) f->out->u.promote.member = m->id;
    }
}

static void search_slots(const run_state *s, run_search *f) {
    for (uint16_t i = 0; i < s->slots; i++)
        if (is_nearer(f, s->owner_term[i], LOG_OWNER)) f->out->u.owner = (log_owner){.slot = i, .member = s->owner[i]};
    for (uint16_t i = 0; i < s->shares; i++)
        if (is_nearer(f, s->share[i].index, LOG_SHARE)) f->out->u.share = s->share[i].entry;
}

static void search_iterations(const run_state *s, run_search *f) {
    if (is_nearer(f, s->run_index, LOG_RUN)) f->out->u.run = s->run;
    if (s->has_final && is_nearer(f, s->final.index, LOG_FINAL)) *f->out = s->final;
    if (s->has_close && is_nearer(f, s->close_index, LOG_CLOSE)) f->out->u.close = s->close;
    for (uint32_t i = 0; i < s->checkpoint_count; i++)
        if (is_nearer(f, s->checkpoint[i].index, LOG_CHECKPOINT)) f->out->u.checkpoint = s->checkpoint[i].entry;
    is_nearer(f, s->end_index, LOG_END);
}

bool run_state_next(const run_state *s, uint64_t after, uint64_t before, log_entry *out) {
    run_search f = {.after = after, .best = before, .out = out};
    memset(out, 0, sizeof *out);
    search_iterations(s, &f);
    search_members(s, &f);
    search_slots(s, &f);
    if (is_nearer(&f, s->voters_index, LOG_VOTERS)) out->u.voters = s->voters;
    out->index = f.best;
    return f.best < before;
}
