// The consensus core alone: voters, their durable logs and the links between them on a virtual
// clock. Messages are lost, duplicated, delayed and reordered; links are cut in one direction or
// both; processes die and lose all that was not durable; voters are changed. Safety is checked at
// every event, progress after the faults.
//     sim_sim_raft                                       the tests
//     sim_sim_raft --seeds FROM:COUNT [--mutant BIT] [--trace]
#include "base/bitset.h"
#include "raft/raft.h"
#include "seed.h"
#include "sim/queue.h"
#include "wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 6, WINDOW = 32, MOST_RECORDS = 4096, MOST_INDEX = 4096, MOST_TERM = 4096, SCHEDULES = 150, MUTANT_SCHEDULES = 30 };

static const uint64_t MS = 1000000, SECOND = 1000000000, FAULTS_NS = 12000000000u, HEALED_NS = 80000000000u;

typedef enum item_kind { ITEM_MESSAGE, ITEM_TICK, ITEM_STORED, ITEM_START, ITEM_FAULT, ITEM_PROPOSE, ITEM_COPY, ITEM_CRASH } item_kind;

typedef struct item {
    item_kind kind;
    uint32_t node, from;
    uint64_t life, serial;
    uint64_t applied, chain;  // ITEM_COPY
    size_t count;
    uint8_t bytes[];
} item;

typedef struct record {
    log_entry entry;
    uint64_t serial, applied, chain;  // the last two: of the snapshot that belongs to a LOG_BASE
} record;

typedef struct node {
    raft machine;
    log_entry window[WINDOW];
    record disk[MOST_RECORDS];
    uint32_t records, durable;
    uint64_t life, serial, stored_ns, tick_serial, store;
    uint64_t applied, chain;  // the replicated state: a hash of all applied entries, in order
    uint64_t seen_committed, seen_last, seen_term;
    bool alive, led;
} node;

typedef struct world {
    uint64_t seed, now;
    rng random;
    sim_queue queue;
    node node[NODES];
    uint32_t voters;
    bool blocked[NODES][NODES], healed, failed, trace;
    uint32_t loss, doubled, mutants;
    uint64_t slowest_ns;
    message out;
    uint32_t out_from;
    // committed entries, as first seen
    uint64_t agreed, term[MOST_INDEX], value[MOST_INDEX], chain[MOST_INDEX];
    uint32_t leader_of[MOST_TERM];  // 1 + node
    uint64_t proposed, elections, crashes, changes, rebases, shortened, undone, agreed_when_healed;
    char text[256];
} world;

static world w;  // one at a time; too large for a stack

static void violated(const char *format, ...) {
    if (w.failed) return;
    w.failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w.text, sizeof w.text, format, arguments);
    va_end(arguments);
    if (w.trace) printf("%10.3f !! %s\n", (double)w.now / 1e9, w.text);
}

static braid_id name_of(uint32_t i) { return (braid_id){.bytes = {(uint8_t)(i + 1)}}; }
static uint32_t number_of(const braid_id *id) { return id->bytes[0] - 1u; }

static item *item_new(item_kind kind, uint32_t i, size_t bytes) {
    item *it = calloc(1, sizeof *it + bytes);
    assert_non_null(it);
    it->kind = kind;
    it->node = i;
    it->life = w.node[i].life;
    it->count = bytes;
    return it;
}

static void put(uint64_t at, item *it) { sim_queue_put(&w.queue, at, it); }

// ---- the machine's host

static message *host_compose(void *context, message_kind kind) {
    w.out_from = (uint32_t)((node *)context - w.node);
    memset(&w.out, 0, sizeof w.out);
    w.out.kind = (uint8_t)kind;
    return &w.out;
}

static uint64_t delay(void) {
    uint64_t usual = MS + rng_below(&w.random, 30 * MS);
    return !w.healed && rng_below(&w.random, 50) == 0 ? usual + rng_below(&w.random, w.slowest_ns) : usual;
}

static void host_send(void *context, const braid_id *to) {
    static uint8_t bytes[WIRE_MAX_CONTROL_BYTES];
    uint32_t from = (uint32_t)((node *)context - w.node), there = number_of(to);
    size_t count = message_encode(&w.out, bytes, sizeof bytes);
    if (count == 0 || there >= NODES || there == from) violated("%u sends what cannot be sent", from);
    if (w.failed || w.blocked[from][there] || (!w.healed && rng_below(&w.random, 1000) < w.loss)) return;
    // a vote is a promise: the voter may die at once and restart before the next request
    if (!w.healed && w.out.kind == MESSAGE_VOTED && !w.out.u.voted.pre_vote && rng_below(&w.random, 20) == 0) {
        put(w.now, item_new(ITEM_CRASH, from, 0));
        put(w.now + rng_below(&w.random, 20 * MS), item_new(ITEM_START, from, 0));
    }
    uint32_t copies = !w.healed && rng_below(&w.random, 1000) < w.doubled ? 2 : 1;
    while (copies-- > 0) {
        item *it = item_new(ITEM_MESSAGE, there, count);
        it->from = from;
        memcpy(it->bytes, bytes, count);
        put(w.now + delay(), it);
    }
}

static void host_store(void *context, const log_entry *entry) {
    node *n = context;
    if (n->records == MOST_RECORDS) {
        violated("a store is full");
        return;
    }
    record *r = &n->disk[n->records++];
    *r = (record){.entry = *entry, .serial = ++n->serial, .applied = n->applied, .chain = n->chain};
    if (entry->kind == LOG_BASE) w.rebases++;
    item *it = item_new(ITEM_STORED, (uint32_t)(n - w.node), 0);
    it->serial = r->serial;
    uint64_t at = w.now + MS + rng_below(&w.random, rng_below(&w.random, 20) == 0 ? 300 * MS : 10 * MS);
    if (at < n->stored_ns) at = n->stored_ns;
    n->stored_ns = at;
    put(at, it);
}

// ---- safety rules

// True if entry `index` is on stable storage as it was committed.
static bool has_durable(const node *n, uint64_t index, uint64_t term) {
    bool has = false;
    for (uint32_t i = 0; i < n->durable; i++) {
        const log_entry *e = &n->disk[i].entry;
        if (e->kind == LOG_VOTE) continue;
        if (e->kind == LOG_BASE) has = e->index >= index;
        else if (e->index == index) has = e->term == term;
        else if (e->index < index && has) has = false;  // truncated
    }
    return has;
}

static void check_majority_stores(const raft *r, uint64_t index, uint64_t term) {
    uint32_t have = 0;
    for (uint32_t i = 0; i < r->voters.count; i++) {
        const node *n = &w.node[number_of(&r->voters.voter[i].id)];
        have += n->store == r->voters.voter[i].store && has_durable(n, index, term);
    }
    if (have < r->voters.count / 2u + 1) violated("entry %llu is called committed and lies on %u of %u stores", (unsigned long long)index, have, r->voters.count);
}

static uint64_t value_of(const log_entry *e) { return e->kind == LOG_EXPEL ? e->u.expel.member : e->kind; }

static void check_committed(uint32_t i) {
    node *n = &w.node[i];
    const raft *r = &n->machine;
    if (r->committed < n->seen_committed) violated("%u returns to committed entry %llu", i, (unsigned long long)r->committed);
    for (uint64_t index = n->seen_committed + 1; index <= r->committed && !w.failed; index++) {
        const log_entry *e = raft_entry(r, index);
        if (e == NULL) continue;  // part of the snapshot
        if (index > w.agreed + 1) violated("%u calls entry %llu committed, no peer has those before", i, (unsigned long long)index);
        if (index == w.agreed + 1 && index < MOST_INDEX) {
            w.agreed = index;
            w.term[index] = e->term;
            w.value[index] = value_of(e);
            w.chain[index] = rng_seed(rng_seed(w.chain[index - 1], e->term), value_of(e));
            check_majority_stores(r, index, e->term);
        } else if (index < MOST_INDEX && (w.term[index] != e->term || w.value[index] != value_of(e))) {
            violated("%u calls another entry %llu committed", i, (unsigned long long)index);
        }
    }
    n->seen_committed = r->committed;
}

static void check_leader(uint32_t i) {
    node *n = &w.node[i];
    const raft *r = &n->machine;
    bool leads = raft_leads(r);
    if (leads && r->term < MOST_TERM) {
        if (w.leader_of[r->term] != 0 && w.leader_of[r->term] != i + 1) violated("two leaders in term %llu", (unsigned long long)r->term);
        w.leader_of[r->term] = i + 1;
    }
    if (leads && !n->led) {
        w.elections++;
        if (r->last < w.agreed) violated("%u leads in term %llu without agreed entry %llu", i, (unsigned long long)r->term, (unsigned long long)w.agreed);
        for (uint64_t index = r->base + 1; index <= w.agreed && index <= r->last; index++)
            if (raft_term_of(r, index) != w.term[index]) violated("%u leads with another entry %llu than was agreed", i, (unsigned long long)index);
    }
    n->led = leads;
}

// Log matching (Raft 5.3): two logs with a common entry agree in all before it. Entries come one by
// one, so each must agree in the one before.
static void check_match(uint32_t i) {
    node *n = &w.node[i];
    const raft *a = &n->machine;
    uint64_t index = a->last;
    if (index == a->base || (n->seen_last == index && n->seen_term == raft_term_of(a, index))) return;
    n->seen_last = index;
    n->seen_term = raft_term_of(a, index);
    for (uint32_t j = 0; j < NODES; j++) {
        const raft *b = &w.node[j].machine;
        if (i == j || b->last < index || b->base >= index || raft_term_of(b, index) != n->seen_term) continue;
        bool same = value_of(raft_at(a, index)) == value_of(raft_at(b, index));
        if (index - 1 > a->base && index - 1 > b->base) same &= raft_term_of(a, index - 1) == raft_term_of(b, index - 1);
        if (!same) violated("the logs of %u and %u agree in the term of entry %llu only", i, j, (unsigned long long)index);
    }
}

static bool apply_next(node *n) {
    const log_entry *e = raft_entry(&n->machine, n->applied + 1);
    if (e == NULL) return false;
    n->applied++;
    n->chain = rng_seed(rng_seed(n->chain, e->term), value_of(e));
    return true;
}

static void apply_all(uint32_t i) {
    node *n = &w.node[i];
    while (n->applied < n->machine.committed && apply_next(n)) {
        if (n->applied < MOST_INDEX && n->applied <= w.agreed && n->chain != w.chain[n->applied]) violated("%u has applied something else up to %llu", i, (unsigned long long)n->applied);
    }
    raft_applied(&n->machine, n->applied, n->applied < MOST_INDEX ? w.term[n->applied] : 0);
}

static void trace_node(uint32_t i) {
    const raft *r = &w.node[i].machine;
    printf("%10.3f    %u: %s, term %llu, entries %llu to %llu, stored %llu, committed %llu, applied %llu, %u voters%s\n", (double)w.now / 1e9, i,
           (const char *const[]){"follows", "tries", "stands", "leads"}[r->role], (unsigned long long)r->term, (unsigned long long)r->base + 1, (unsigned long long)r->last,
           (unsigned long long)r->stored, (unsigned long long)r->committed, (unsigned long long)r->applied, r->voters.count, raft_votes(r) ? "" : ", not it");
}

static void after(uint32_t i) {
    node *n = &w.node[i];
    if (w.trace) trace_node(i);
    if (!n->alive || w.failed) return;
    check_committed(i);
    check_leader(i);
    check_match(i);
    apply_all(i);
    uint64_t at = raft_deadline(&n->machine);
    if (at == UINT64_MAX) return;
    item *it = item_new(ITEM_TICK, i, 0);
    it->serial = ++n->tick_serial;
    put(at < w.now ? w.now + MS : at, it);
}

// ---- incarnations

static void machine_new(uint32_t i) {
    node *n = &w.node[i];
    const raft_host host = {n, host_compose, host_send, host_store};
    braid_id self = name_of(i);
    memset(n->window, 0, sizeof n->window);
    raft_init(&n->machine, &host, &self, n->store, rng_next(&w.random), n->window, WINDOW, w.now);
    n->machine.mutants = w.mutants;
    n->machine.low_priority = i % 2 == 1;
    n->alive = true;
    n->led = false;
}

// A crash: of the records that were not durable yet, the first few survive, or none.
static void crash(uint32_t i) {
    node *n = &w.node[i];
    if (!n->alive) return;
    w.crashes++;
    n->alive = false;
    n->life++;
    n->records = n->durable += (uint32_t)rng_below(&w.random, n->records - n->durable + 1);
    bool votes = false;
    for (uint32_t j = 0; j < NODES; j++) votes |= raft_is_voter(&w.node[j].machine, &n->machine.self, n->store);
    if (!votes && rng_below(&w.random, 2)) {
        n->records = n->durable = 0;
        n->store = rng_next(&w.random);
    }
    if (w.trace) printf("%10.3f    %u dies\n", (double)w.now / 1e9, i);
}

static void restart(uint32_t i) {
    node *n = &w.node[i];
    uint32_t first = 0;
    if (n->alive) return;
    machine_new(i);
    n->applied = n->chain = n->seen_committed = 0;
    for (uint32_t k = 0; k < n->durable; k++)
        if (n->disk[k].entry.kind == LOG_BASE) first = k;
    for (uint32_t k = 0; k < n->durable; k++) {
        const record *r = &n->disk[k];
        if (k < first && r->entry.kind != LOG_VOTE) continue;
        for (uint64_t committed = raft_implied_commit(&n->machine, &r->entry); n->applied < committed && apply_next(n);) continue;
        raft_applied(&n->machine, n->applied, 0);
        if (r->entry.kind == LOG_BASE) {
            n->applied = r->applied;
            n->chain = r->chain;
        }
        if (!raft_restore(&n->machine, &r->entry)) violated("%u cannot read its own store", i);
        raft_applied(&n->machine, n->applied, n->applied < MOST_INDEX ? w.term[n->applied] : 0);
    }
    if (w.trace) printf("%10.3f    %u is back in term %llu with entries up to %llu\n", (double)w.now / 1e9, i, (unsigned long long)n->machine.term, (unsigned long long)n->machine.last);
    after(i);
}

static void world_open(uint64_t seed, uint32_t mutants, bool trace) {
    memset(&w, 0, sizeof w);
    w.seed = seed;
    w.random.state = rng_seed(seed, 5);
    w.mutants = mutants;
    w.trace = trace;
    w.now = SECOND;
    w.voters = (uint32_t[]){1, 3, 3, 5, 5}[rng_below(&w.random, 5)];
    w.loss = (uint32_t)(rng_below(&w.random, 3) ? rng_below(&w.random, 60) : rng_below(&w.random, 300));
    w.doubled = (uint32_t)rng_below(&w.random, 100);
    w.slowest_ns = rng_below(&w.random, 4) ? 300 * MS : 8 * SECOND;
    log_entry first = {.kind = LOG_BASE, .term = 1, .u.base.voters.count = (uint16_t)w.voters};
    for (uint32_t i = 0; i < NODES; i++) w.node[i].store = rng_next(&w.random);
    for (uint32_t i = 0; i < w.voters; i++) first.u.base.voters.voter[i] = (log_voter){.id = name_of(i), .store = w.node[i].store};
    for (uint32_t i = 0; i < NODES; i++) {
        node *n = &w.node[i];
        if (i < w.voters) n->disk[n->records++] = (record){.entry = first};
        n->durable = n->records;
        restart(i);
    }
    put(w.now + 100 * MS, item_new(ITEM_FAULT, 0, 0));
    put(w.now + 100 * MS, item_new(ITEM_PROPOSE, 0, 0));
    put(w.now + 100 * MS, item_new(ITEM_COPY, 0, 0));
}

// ---- faults

static void cut(void) {
    uint32_t a = (uint32_t)rng_below(&w.random, NODES), kind = (uint32_t)rng_below(&w.random, 4);
    for (uint32_t b = 0; b < NODES; b++) {
        // no peer receives its messages
        if (kind == 0) w.blocked[a][b] = a != b;
        // it receives no messages
        if (kind == 1) w.blocked[b][a] = a != b;
        if (kind == 2) w.blocked[a][b] = w.blocked[b][a] = a != b;
        for (uint32_t c = 0; kind == 3 && c < NODES; c++) w.blocked[b][c] = b % 3 != c % 3 && (b % 3 == a % 3 || c % 3 == a % 3);
    }
}

static void crash_for_a_while(uint32_t i) {
    crash(i);
    put(w.now + (rng_below(&w.random, 2) ? rng_below(&w.random, 200 * MS) : rng_below(&w.random, 5 * SECOND)), item_new(ITEM_START, i, 0));
}

static void fault(void) {
    if (w.healed) return;
    uint32_t i = (uint32_t)rng_below(&w.random, NODES);
    switch (rng_below(&w.random, 6)) {
    case 0: case 1:
        if (rng_below(&w.random, 10) != 0) crash_for_a_while(i);
        // a restarted peer does not know that any of it is committed, nor does any other peer
        else for (i = 0; i < NODES; i++) crash_for_a_while(i);
        break;
    case 2: cut(); break;
    case 3: case 4: memset(w.blocked, 0, sizeof w.blocked); break;
    default: {
        braid_id gone = name_of((uint32_t)rng_below(&w.random, NODES));  // rightly or wrongly
        if (w.node[i].alive) raft_peer_gone(&w.node[i].machine, w.now, &gone);
        after(i);
    }
    }
    put(w.now + rng_below(&w.random, 3 * SECOND / 2), item_new(ITEM_FAULT, 0, 0));
}

static void heal(void) {
    w.healed = true;
    w.agreed_when_healed = w.agreed;
    memset(w.blocked, 0, sizeof w.blocked);
    for (uint32_t i = 0; i < NODES; i++) restart(i);
}

// Adds or removes one voter.
static bool change(raft *r, log_entry *entry) {
    if (!raft_may_change(r) || raft_room(r) == 0) return false;
    *entry = (log_entry){.kind = LOG_VOTERS, .u.voters = r->voters};
    log_voters *v = &entry->u.voters;
    if (v->count > 3 && rng_below(&w.random, 2)) {
        v->voter[rng_below(&w.random, v->count)] = v->voter[v->count - 1];
        v->voter[--v->count] = (log_voter){.store = 0};
        return true;
    }
    if (v->count == 1) {
        uint32_t only = number_of(&v->voter[0].id), more = rng_below(&w.random, 2) ? 2 : 4;
        for (uint32_t k = 0; k < more; k++) {
            uint32_t other = (only + 1 + k) % NODES;
            v->voter[v->count++] = (log_voter){.id = name_of(other), .store = w.node[other].store};
        }
        return true;
    }
    uint32_t i = (uint32_t)rng_below(&w.random, NODES);
    braid_id id = name_of(i);
    if (v->count == 5) return false;
    for (uint32_t k = 0; k < v->count; k++)
        if (id_equal(&v->voter[k].id, &id)) return false;
    v->voter[v->count++] = (log_voter){.id = id, .store = w.node[i].store};
    return true;
}

// Compacts a log: a snapshot of the current state replaces its beginning. Mutants keep the
// schedules in which they were noticed, so they are excluded.
static void shorten(void) {
    for (uint32_t i = 0; i < NODES && w.mutants == 0; i++) {
        raft *r = &w.node[i].machine;
        if (!w.node[i].alive || !raft_may_compact(r) || rng_below(&w.random, 6) != 0) continue;
        raft_compact(r);
        w.rebases--;
        w.shortened++;
        after(i);
    }
}

// Withdraws a change that is not committed yet.
static bool undo(const raft *r, log_entry *entry) {
    log_voters before;
    if (w.mutants != 0 || !raft_may_undo(r, &before) || rng_below(&w.random, 3) != 0) return false;
    *entry = (log_entry){.kind = LOG_VOTERS, .u.voters = before};
    return true;
}

static void propose(void) {
    shorten();
    for (uint32_t i = 0; i < NODES; i++) {
        raft *r = &w.node[i].machine;
        if (!w.node[i].alive || !raft_leads(r)) continue;
        if (!w.healed && rng_below(&w.random, 60) == 0) raft_transfer_leadership(r, &r->voters.voter[rng_below(&w.random, r->voters.count)].id);
        log_entry entry = {.kind = LOG_EXPEL, .u.expel.member = 1000 + w.proposed};
        bool changes = !w.healed && rng_below(&w.random, 10) == 0 && change(r, &entry);
        bool undoes = !w.healed && !changes && undo(r, &entry);
        if (raft_room(r) == 0) continue;
        w.proposed++;
        w.changes += changes;
        w.undone += undoes;
        raft_append(r, w.now, &entry);
        after(i);
    }
    put(w.now + rng_below(&w.random, 200 * MS), item_new(ITEM_PROPOSE, 0, 0));
}

// Copies a snapshot to a peer that is no voter or far behind.
static void copy(void) {
    uint32_t from = (uint32_t)rng_below(&w.random, NODES), to = (uint32_t)rng_below(&w.random, NODES);
    const node *a = &w.node[from];
    if (a->alive && from != to && !w.blocked[from][to]) {
        item *it = item_new(ITEM_COPY, to, 1);
        it->applied = a->applied;
        it->chain = a->chain;
        put(w.now + delay(), it);
    }
    put(w.now + rng_below(&w.random, 300 * MS), item_new(ITEM_COPY, 0, 0));
}

static void copied(const item *it) {
    node *n = &w.node[it->node];
    if (!n->alive || it->life != n->life || it->applied <= n->applied) return;
    n->applied = it->applied;
    n->chain = it->chain;
    raft_applied(&n->machine, n->applied, n->applied < MOST_INDEX ? w.term[n->applied] : 0);
    after(it->node);
}

static void stored(const item *it) {
    node *n = &w.node[it->node];
    if (!n->alive || it->life != n->life) return;
    const record *r = &n->disk[n->durable++];
    if (r->serial != it->serial) violated("the store answers out of order");
    log_entry entry = r->entry;
    raft_stored(&n->machine, w.now, &entry);
    after(it->node);
}

static void delivered(const item *it) {
    static message in;
    node *n = &w.node[it->node];
    if (!n->alive) return;
    if (!message_decode(it->bytes, it->count, &in)) {
        violated("what %u sent cannot be decoded", it->from);
        return;
    }
    braid_id from = name_of(it->from);
    raft_receive(&n->machine, w.now, &from, &in);
    after(it->node);
}

static void item_do(const item *it) {
    node *n = &w.node[it->node];
    switch (it->kind) {
    case ITEM_MESSAGE: delivered(it); break;
    case ITEM_TICK:
        if (!n->alive || it->life != n->life || it->serial != n->tick_serial) break;
        raft_tick(&n->machine, w.now);
        after(it->node);
        break;
    case ITEM_STORED: stored(it); break;
    case ITEM_START: restart(it->node); break;
    case ITEM_FAULT: fault(); break;
    case ITEM_CRASH: crash(it->node); break;
    case ITEM_PROPOSE: propose(); break;
    case ITEM_COPY:
        if (it->count == 0) copy();
        else copied(it);
        break;
    }
}

// True if there is a leader and all its voters have the committed entries, long after the faults.
static bool progressed(void) {
    for (uint32_t i = 0; i < NODES; i++) {
        const raft *r = &w.node[i].machine;
        if (!raft_in_charge(r) || w.agreed < w.agreed_when_healed + 5) continue;
        bool all = true;
        for (uint32_t k = 0; k < r->voters.count; k++) all &= w.node[number_of(&r->voters.voter[k].id)].machine.committed > w.agreed_when_healed + 3;
        if (all) return true;
    }
    return false;
}

static uint64_t schedule(uint64_t seed, uint32_t mutants, bool trace) {
    void *next;
    uint64_t events = 0, at;
    world_open(seed, mutants, trace);
    while (!w.failed && sim_queue_take(&w.queue, &at, &next)) {
        w.now = at;
        events++;
        if (!w.healed && w.now > FAULTS_NS) heal();
        item_do(next);
        free(next);
        if (w.healed && events % 16 == 0 && progressed()) break;
        if (w.now > HEALED_NS) violated("no progress though the faults have stopped: %llu entries agreed, %llu of them before", (unsigned long long)w.agreed, (unsigned long long)w.agreed_when_healed);
    }
    while (sim_queue_take(&w.queue, &at, &next)) free(next);
    sim_queue_close(&w.queue);
    return events;
}

// ---- tests

static void test_schedules(void **state) {
    (void)state;
    rng first = seeded_rng("schedules", 1);
    uint64_t events = 0, elections = 0, crashes = 0, changes = 0, rebases = 0, shortened = 0, undone = 0, agreed = 0;
    for (uint64_t i = 0; i < SCHEDULES; i++) {
        events += schedule(first.state + i, 0, false);
        elections += w.elections;
        crashes += w.crashes;
        changes += w.changes;
        rebases += w.rebases;
        shortened += w.shortened;
        undone += w.undone;
        agreed += w.agreed;
        if (w.failed) fail_msg("at %.3f s: %s\n  again: sim_sim_raft --seeds %llu:1 --trace", (double)w.now / 1e9, w.text, (unsigned long long)w.seed);
    }
    print_message("%d schedules: %llu events, %llu elections, %llu crashes, %llu changes of voters, %llu logs begun behind the first entry, %llu entries agreed\n",
                  SCHEDULES, (unsigned long long)events, (unsigned long long)elections, (unsigned long long)crashes, (unsigned long long)changes, (unsigned long long)rebases, (unsigned long long)agreed);
    assert_true(elections > 2 * SCHEDULES && crashes > 2 * SCHEDULES && changes > 2 * SCHEDULES && rebases > 0 && shortened > 2 * SCHEDULES && undone > SCHEDULES / 4);
}

// `first`: start of the search, shortly before the schedule that notices it.
static const struct {
    const char *name;
    raft_mutant bit;
    uint64_t first;
} mutants[] = {
    {"votes twice", RAFT_MUTANT_VOTES_TWICE, 31},
    {"acknowledges before that is stored", RAFT_MUTANT_ACKS_UNSTORED, 1},
    {"votes for a log that is behind", RAFT_MUTANT_ANY_LOG, 1},
    {"does not compare the entry before", RAFT_MUTANT_NO_MATCH, 120},
    {"keeps what contradicts the leader", RAFT_MUTANT_KEEPS_TAIL, 1},
    {"half is a majority", RAFT_MUTANT_HALF, 1},
    {"believes what it did not compare", RAFT_MUTANT_COMMITS_ALL, 21},
};

static void test_mutants_are_noticed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        uint64_t seed = mutants[i].first, end = seed + MUTANT_SCHEDULES;
        while (seed < end && (schedule(seed, mutants[i].bit, false), !w.failed)) seed++;
        if (!w.failed) fail_msg("%s: unnoticed in %d schedules", mutants[i].name, MUTANT_SCHEDULES);
        print_message("%s: noticed in schedule %llu (%s)\n", mutants[i].name, (unsigned long long)seed, w.text);
    }
}

// The same seed gives the same events.
static void test_repeatable(void **state) {
    (void)state;
    uint64_t events = schedule(7, 0, false), agreed = w.agreed, chain = w.chain[w.agreed];
    assert_int_equal(schedule(7, 0, false), events);
    assert_true(agreed > 0 && w.agreed == agreed && w.chain[agreed] == chain);
}

static int by_hand(int count, char **arguments) {
    uint64_t from = 1, schedules = 1, failures = 0;
    uint32_t bits = 0;
    bool trace = false;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--trace") == 0) trace = true;
        else if (i + 1 < count && strcmp(arguments[i], "--mutant") == 0) bits = 1u << strtoul(arguments[++i], NULL, 10);
        else if (i + 1 < count && strcmp(arguments[i], "--seeds") == 0) {
            char *end;
            from = strtoull(arguments[++i], &end, 10);
            if (*end == ':') schedules = strtoull(end + 1, NULL, 10);
        } else return 2;
    }
    for (uint64_t seed = from; seed < from + schedules; seed++) {
        schedule(seed, bits, trace);
        failures += w.failed;
        if (w.failed) printf("seed %llu at %.3f s: %s\n", (unsigned long long)seed, (double)w.now / 1e9, w.text);
    }
    printf("%llu schedules, %llu failed\n", (unsigned long long)schedules, (unsigned long long)failures);
    return failures > 0;
}

int main(int count, char **arguments) {
    if (count > 1) return by_hand(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules), cmocka_unit_test(test_repeatable), cmocka_unit_test(test_mutants_are_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
