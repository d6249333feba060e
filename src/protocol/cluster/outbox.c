// Sending a message to a contact, a member or the leader.
#include "protocol/cluster/cluster.h"

bool peer_is_leader(const peer *p) { return p->cluster->leads; }

static bool send_part(peer *p, uint32_t contact_index, blob_id blob, uint64_t offset, uint64_t part) {
    if (contact_index == NO_CONTACT) return core_send_local(p, blob);
    cluster_contact *c = &p->cluster->contacts[contact_index];
    if (c->link != LINK_UP) return false;
    const uint8_t *bytes;
    size_t count = core_encode(p, &bytes);
    effect *e = count == 0 ? NULL : core_send_effect(p);
    if (e == NULL) return false;
    e->id = c->id;
    e->bytes = bytes;
    e->byte_count = count;
    e->message_kind = p->core.scratch.kind;
    e->blob = blob;
    e->blob_offset = offset;
    e->blob_bytes = part;
    c->sent_ns = p->now;
    contact_touch(p, contact_index);
    return true;
}

bool peer_send(peer *p, uint32_t contact_index, blob_id blob) { return send_part(p, contact_index, blob, 0, 0); }

bool peer_send_part(peer *p, member_id to, blob_id blob, uint64_t offset, uint64_t bytes) {
    const cluster_member *m = member_find(p, to);
    return m != NULL && send_part(p, m->contact, blob, offset, bytes);
}

bool peer_send_member(peer *p, member_id to, blob_id blob) {
    const cluster_member *m = member_find(p, to);
    return m != NULL && peer_send(p, m->contact, blob);
}

bool peer_send_leader(peer *p) {
    if (peer_is_leader(p)) return core_send_local(p, 0);
    uint32_t index = contact_find(p, &p->cluster->lead.id);
    return index != NO_CONTACT && peer_send(p, index, 0);
}
