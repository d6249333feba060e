// The members of the run, as far as the log was read here.
#include "protocol/cluster/cluster.h"

#include <string.h>

cluster_member *member_find(const peer *p, member_id id) {
    uint32_t low = 0, high = p->cluster->member_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (p->cluster->members[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low < p->cluster->member_count && p->cluster->members[low].id == id ? &p->cluster->members[low] : NULL;
}

bool member_live(const peer *p, member_id id) { return id != 0 && member_find(p, id) != NULL; }

bool member_at(const peer *p, member_id id, uint16_t stage) {
    const cluster_member *m = id == 0 ? NULL : member_find(p, id);
    return m != NULL && m->stage == stage && m->contact != NO_CONTACT;
}

bool member_answers(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    if (m == NULL) return false;
    return m->contact == NO_CONTACT || contact_answers(p, &p->cluster->contacts[m->contact]);
}

// A member that does not answer may be heard at any time. A peer that is no member stays none.
uint64_t member_answers_until(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    if (m == NULL || m->contact == NO_CONTACT) return UINT64_MAX;
    const cluster_contact *c = &p->cluster->contacts[m->contact];
    uint64_t sure = c->link == LINK_UP ? timing_sure_until(&c->timing) : 0;
    return sure > p->now ? sure : 0;
}

bool member_shares_machine(const peer *p, member_id id) {
    const braid_id nobody = {{0}};
    const cluster_member *m = member_find(p, id);
    if (m == NULL || m->contact == NO_CONTACT) return false;
    const cluster_contact *c = &p->cluster->contacts[m->contact];
    const braid_id *own = id_equal(&p->config.host, &nobody) ? &p->config.self : &p->config.host;
    return id_equal(own, id_equal(&c->host, &nobody) ? &c->id : &c->host);
}

uint32_t member_count_stage(const peer *p, uint16_t stage) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) count += p->cluster->members[i].stage == stage;
    return count;
}

member_id member_before(const peer *p) {
    const run_member *m = run_state_member_of(&p->state, &p->config.self);
    return m == NULL || m->id == p->me ? 0 : m->id;
}

void member_add(peer *p, uint64_t index, const log_member *entry) {
    bool self = id_equal(&entry->peer, &p->config.self);
    if (entry->stage >= p->run.stages) return;
    if (self && (entry->incarnation != p->config.random_seed || index <= p->cluster->join_floor)) return;  // member_before
    // a MEMBER entry replaces the older member of the same peer
    uint32_t known = self ? NO_CONTACT : contact_find(p, &entry->peer);
    member_id older = self ? p->me : known == NO_CONTACT ? 0 : p->cluster->contacts[known].member;
    if (older != 0 && peer_breaks(p, PEER_MUTANT_KEEPS_ITS_NUMBER)) return;
    if (older != 0) member_remove(p, older, EXPEL_RETURNED);
    uint32_t c = self ? NO_CONTACT : contact_add(p, &entry->peer, entry->address);
    if (c != NO_CONTACT) p->cluster->contacts[c].joining = false;  // even if there is no room for the member
    if (self) p->cluster->admitted = false;
    if (p->cluster->member_count == WIRE_MAX_MEMBERS || (!self && c == NO_CONTACT)) return;
    cluster_member *m = &p->cluster->members[p->cluster->member_count++];
    contacts_touch(p);
    bool standby = entry->kind == MEMBER_SHADOW;
    *m = (cluster_member){.id = index, .contact = c, .stage = standby ? NO_STAGE : entry->stage, .keeps = entry->stage, .kind = entry->kind, .capacity = entry->capacity};
    tell t = {.kind = self ? TELL_JOINED : TELL_MEMBER, .member = index, .id = entry->peer, .stage = entry->stage, .standby = standby, .iteration = p->state.iteration};
    peer_tell(p, &t);
    if (self) {
        p->me = index;
        p->cluster->rejoin_first = false;
        p->stage = entry->stage;
        p->standby = standby;
        core_report(p, &(core_change){.kind = CHANGE_ADMITTED});
    } else {
        cluster_contact *who = &p->cluster->contacts[c];
        who->member = index;
        who->admitted_ns = p->now;
        who->itself = who->joining = false;
        who->incarnation = entry->incarnation;
        who->store = entry->store;
        who->host = entry->host;
        memcpy(who->entered, entry->address, sizeof who->entered);
        memset(&who->beat, 0, sizeof who->beat);
        who->beat_position = 0;
        memset(&who->source, 0, sizeof who->source);
        if (who->link == LINK_NONE) who->down_ns = p->now;
        who->refused_ns = 0;
        who->redial_ns = p->now;
    }
    core_report(p, &(core_change){.kind = CHANGE_MEMBERS});
}

static void tell_expelled(peer *p, const cluster_member *gone, uint8_t reason) {
    tell t = {.kind = TELL_EXPELLED, .member = gone->id, .stage = gone->keeps, .standby = member_is_standby(gone), .reason = reason, .iteration = p->state.iteration};
    t.id = gone->contact == NO_CONTACT ? p->config.self : p->cluster->contacts[gone->contact].id;
    peer_tell(p, &t);
}

static void drop(peer *p, cluster_member *m, uint8_t reason) {
    cluster_member gone = *m;
    member_id id = gone.id;
    uint32_t at = (uint32_t)(m - p->cluster->members);
    memmove(m, m + 1, (p->cluster->member_count - at - 1) * sizeof *m);
    p->cluster->member_count--;
    contacts_touch(p);
    if (gone.contact != NO_CONTACT) {
        cluster_contact *c = &p->cluster->contacts[gone.contact];
        p->cluster->former[p->cluster->next_former++ % PEER_KEPT_FORMER] = (former_member){.incarnation = c->incarnation, .stage = gone.keeps};
        c->member = 0;
        c->departing = false;
        c->untold = c->link == LINK_UP;
    }
    core_report(p, &(core_change){.kind = CHANGE_MEMBERS});
    if (id == p->me) {
        core_report(p, &(core_change){.kind = CHANGE_DISMISSED, .reason = reason});
        return;
    }
    core_report(p, &(core_change){.kind = CHANGE_MEMBER_GONE, .member = id});
    contact_forget(p, &p->cluster->contacts[gone.contact]);
}

void member_remove(peer *p, member_id id, uint8_t reason) {
    cluster_member *m = member_find(p, id);
    if (m == NULL) return;
    tell_expelled(p, m, reason);
    drop(p, m, reason);
}

// A snapshot is about to name all members. No member is removed by the log.
void members_forget(peer *p) {
    while (p->cluster->member_count > 0) drop(p, &p->cluster->members[p->cluster->member_count - 1], EXPEL_DEAD);
}

uint32_t peer_members(const peer *p, uint16_t stage, member_id *out, uint32_t capacity) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        if (p->cluster->members[i].stage != stage) continue;
        if (count < capacity) out[count] = p->cluster->members[i].id;
        count++;
    }
    return count;
}
