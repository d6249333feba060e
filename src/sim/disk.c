// The durable logs of voters. Entries become durable a little later, in order, and survive the
// process.
#include "sim/inside.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t MILLISECOND = 1000000;

static void disk_put(sim_disk *d, const log_entry *entry) {
    if (d->records == d->room) {
        d->room = d->room ? 2 * d->room : 64;
        d->record = realloc(d->record, d->room * sizeof *d->record);
        BRAID_ALLOCATED(d->record, d->room * sizeof *d->record);
    }
    d->record[d->records++] = *entry;
}

static void note_length(sim_cluster *s, sim_disk *d, const log_entry *entry) {
    if (entry->kind == LOG_BASE) {
        s->stats->shortened += entry->index > 0 && entry->index == d->last;
        d->base = entry->index;
    }
    if (entry->kind != LOG_VOTE) d->last = entry->index;
    uint32_t behind = (uint32_t)(d->last - d->base);
    if (behind > s->stats->longest_store) s->stats->longest_store = behind;
}

void sim_disk_append(sim_cluster *s, uint32_t node, const log_entry *entry) {
    sim_node *n = &s->node[node];
    note_length(s, &n->disk, entry);
    disk_put(&n->disk, entry);
    log_entry each;
    for (uint64_t after = 0; entry->kind == LOG_BASE && peer_snapshot(n->peer, after, &each); after = each.index) disk_put(&n->disk, &each);
    uint64_t at = s->now + MILLISECOND + rng_below(&s->random, 4 * MILLISECOND);
    if (s->c->net.slow_stores && node % 3 != 0 && rng_below(&s->random, 8) == 0) at += rng_below(&s->random, 1500 * MILLISECOND);
    if (at > n->disk.stored_ns) n->disk.stored_ns = at;
    sim_item_put(s, n->disk.stored_ns, sim_item_new(ITEM_STORED, node, 0));
}

// The number of records that are stored together: a LOG_BASE and its snapshot.
static uint32_t together(const sim_disk *d, uint32_t at) { return d->record[at].kind == LOG_BASE ? 1 + d->record[at].u.base.entries : 1; }

void sim_disk_stored(sim_cluster *s, uint32_t node) {
    sim_disk *d = &s->node[node].disk;
    log_entry entry = d->record[d->durable];
    d->durable += together(d, d->durable);
    event e = {.kind = EVENT_STORED, .entry = &entry};
    sim_step(s, node, &e);
}

// Of the records on their way to the disk, the first few may be durable.
void sim_disk_crash(sim_cluster *s, uint32_t node) {
    sim_disk *d = &s->node[node].disk;
    while (d->durable < d->records && rng_below(&s->random, 2)) d->durable += together(d, d->durable);
    d->records = d->durable;
}

void sim_disk_recall(sim_cluster *s, uint32_t node, const sim_disk *from) {
    sim_node *n = &s->node[node];
    uint32_t base = 0;
    for (uint32_t i = 0; i < from->durable; i += together(from, i))
        if (from->record[i].kind == LOG_BASE) base = i;
    for (uint32_t i = 0; i < from->durable; i++) {
        if (i < base && from->record[i].kind != LOG_VOTE) continue;
        disk_put(&n->disk, &from->record[i]);
        if (!peer_recall(n->peer, &from->record[i])) sim_fail(s, "%s cannot read its own store", n->name);
    }
    n->disk.durable = n->disk.records;
    n->disk.base = from->base;
    n->disk.last = from->last;
    s->stats->recalled++;
}
