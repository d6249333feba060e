// Sounding a line: a short train of messages whose spacing at the other end says what the line carries, before a tensor that takes
// much longer is trusted to it (docs/protocol.md, Routing).
#include "peer/internal.h"

enum {
    SHORT_TRAIN = 8, SHORT_BYTES = 8 << 10,   // first: it blocks a line of 1 Mb/s for half a second
    LONG_TRAIN = 32, LONG_BYTES = 16 << 10,   // ... and this one only lines that took the short one quickly
    TENSORS_SHARE = 32,                       // a line is sounded if a tensor is at least so many short trains
};
static const uint64_t quick_ns = 50000000, lost_ns = 20000000000, again_ns = 60000000000;

bool route_worth_sounding(const peer *p) { return p->run.activation_bytes >= (uint64_t)TENSORS_SHARE * SHORT_TRAIN * SHORT_BYTES; }

static void send_train(peer *p, route_link *l, uint16_t count, uint16_t bytes) {
    l->train = (uint32_t)rng_next(&p->random) | 1;
    l->train_long = count == LONG_TRAIN;
    l->sounded_ns = p->now;
    p->routing.sounds_until_ns = p->now + lost_ns;
    for (uint16_t i = 0; i < count; i++) {
        peer_compose(p, MESSAGE_SOUND)->u.sound = (message_sound){.train = l->train, .index = i, .count = count, .padding = bytes};
        if (!peer_send_member(p, l->member, 0)) return;
    }
}

// One line at a time, so that trains do not wait for each other.
void route_sound_tick(peer *p) {
    routing *r = &p->routing;
    if (!route_worth_sounding(p) || p->now < r->sounds_until_ns) return;
    for (uint32_t i = 0; i < r->links; i++) {
        route_link *l = &r->link[i];
        bool lately = l->sounded_ns != 0 && p->now < l->sounded_ns + again_ns;
        if (!l->up || lately || measure_value(&l->measured.rate[MEASURE_TO]) != 0 || !route_is_next(p, l->member)) continue;
        send_train(p, l, SHORT_TRAIN, SHORT_BYTES);
        return;
    }
}

void on_sound(peer *p, const message *msg) {
    const message_sound *s = &msg->u.sound;
    route_link *l = p->routing.router == NULL ? NULL : route_find(p, msg->sender);
    if (l == NULL) return;
    if (s->index == 0) {
        l->heard_train = s->train;
        l->heard_index = 0;
        l->heard_bytes = 0;
        l->heard_since_ns = p->now;
        return;
    }
    if (s->train != l->heard_train || s->index != l->heard_index + 1) return;
    l->heard_index++;
    l->heard_bytes += s->padding;  // the first one only says when it began
    if (s->index + 1 < s->count) return;
    message_sounded *answer = &peer_compose(p, MESSAGE_SOUNDED)->u.sounded;
    *answer = (message_sounded){.train = s->train, .bytes = l->heard_bytes, .ns = p->now - l->heard_since_ns};
    l->heard_train = 0;
    peer_send_member(p, msg->sender, 0);
}

void on_sounded(peer *p, const message *msg) {
    const message_sounded *s = &msg->u.sounded;
    route_link *l = p->routing.router == NULL ? NULL : route_find(p, msg->sender);
    if (l == NULL || l->train == 0 || s->train != l->train) return;
    bool whole = s->bytes == (l->train_long ? (LONG_TRAIN - 1) * LONG_BYTES : (SHORT_TRAIN - 1) * SHORT_BYTES);
    l->train = 0;
    p->routing.sounds_until_ns = p->now;
    if (!whole) return;
    if (!l->train_long && s->ns < quick_ns) {
        send_train(p, l, LONG_TRAIN, LONG_BYTES);
        return;
    }
    measure_transfer(&l->measured, MEASURE_TO, s->bytes, s->ns > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)s->ns, false);
}
