// The handshake between two peers, and the choice between two connections of the same pair.
//
// Two peers may dial each other at the same moment. The connection dialed by the lower id survives,
// without an established link being closed:
//  1. The lower id holds the other's HELLO until its own dial has ended, and answers it only then.
//  2. The higher id answers the lower's HELLO at once and gives up its own dial.
//
// A HELLO that arrives while a link is up has one of two causes:
//  - The peer lost its end unnoticed and returned: the new connection replaces the old link.
//  - It is a late HELLO of crossing dials: the peer sent it before its WELCOME on the other
//    connection. Such a connection was accepted here before the link came up; a return after it.
//
// Two processes with the same key on two machines would replace each other's links without end. A
// returning peer advertises its former address, or it is a new process and the old one is dead. So
// a HELLO with another address is refused while the old link is alive. A real return before the
// old link has fallen is refused too, and succeeds at a later dial.
#include "net/inside.h"

#include <stdio.h>
#include <string.h>

enum { SHORT_HASH = 8 };  // bytes of a run's hash in messages

static void short_hex(const braid_hash *hash, char text[2 * SHORT_HASH + 1]) { id_hex(hash->bytes, SHORT_HASH, text); }

static bool is_zero(const uint8_t *bytes, size_t count) {
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) any |= bytes[i];
    return any == 0;
}

static void copy_text(char *to, size_t capacity, const char *from) {
    snprintf(to, capacity, "%s", from != NULL ? from : "");
}

static void refuse(link *l, handshake_refusal code, const char *sentence) {
    handshake_refuse r = {.code = (uint8_t)code};
    copy_text(r.sentence, sizeof r.sentence, sentence);
    size_t count = handshake_refuse_encode(&r, l->net->greeting, sizeof l->net->greeting);
    if (count > 0 && !link_queue(l, FRAME_REFUSE, l->net->greeting, count)) return;
    link_leave(l, "refused %s: %s", link_name(l), sentence);
}

static void send_hello(link *l) {
    const net *n = l->net;
    handshake_hello hello = {.kind = n->config.kind};
    if (!l->enquiry) {
        hello.run = n->run.hash;
        hello.generation = n->run.generation;
        hello.kernels = n->run.kernels;
    }
    copy_text(hello.address, sizeof hello.address, n->address);
    copy_text(hello.software, sizeof hello.software, n->software);
    size_t count = handshake_hello_encode(&hello, l->net->greeting, sizeof l->net->greeting);
    BRAID_ASSERT(count > 0);  // net_new and net_advertise validated the texts
    link_queue(l, FRAME_HELLO, l->net->greeting, count);
}

static bool send_welcome(link *l) {
    const net *n = l->net;
    handshake_welcome w = {
        .run = n->run.hash, .generation = n->run.generation, .kind = n->config.kind, .leader = n->run.leader};
    w.kernels = n->run.kernels;
    copy_text(w.address, sizeof w.address, n->address);
    copy_text(w.software, sizeof w.software, n->software);
    copy_text(w.leader_address, sizeof w.leader_address, n->leader_address);
    if (l->enquiry) {
        w.description = n->description;
        w.description_bytes = n->run.description_bytes;
    }
    size_t count = handshake_welcome_encode(&w, l->net->greeting, sizeof l->net->greeting);
    BRAID_ASSERT(count > 0);  // net_set_run validated the texts
    return link_queue(l, FRAME_WELCOME, l->net->greeting, count);
}

static void establish_link(link *l) {
    net *n = l->net;
    frame_decoder_open(l->decoder, n->config.max_payload);
    uv_timer_stop(&l->timer);
    link_set_state(l, LINK_UP);
    l->up_event = ++n->events;
    net_table_add(n, l);
    n->totals.links++;
    net_settle(n);  // reports link_down of the replaced link; may close this one again
    if (!link_is_open(l)) return;
    l->up_reported = true;
    n->callbacks.link_up(n->callbacks.context, &l->id, &l->peer);
}

static void replace_link(link *old) {
    if (old != NULL) link_fall(old, "a newer connection from %s replaced it", link_name(old));
}

static bool is_another_process(const link *l, const link *old) {
    bool moved = l->peer.address[0] != '\0' && old->peer.address[0] != '\0' && strcmp(l->peer.address, old->peer.address) != 0;
    return moved && uv_now(l->net->loop) - old->received_ms < l->net->config.alive_ms;
}

static void refuse_another_process(link *l, const link *old) {
    char sentence[NET_MAX_REASON];
    snprintf(sentence, sizeof sentence,
             "another process with this peer's key is linked here and alive, at %.80s: every peer needs a key of its own "
             "(`braid keygen`)",
             old->peer.address);
    refuse(l, REFUSE_DUPLICATE, sentence);
}

// The HELLO of `l` is valid. The answer depends on the other connections between the two peers.
static void admit(link *l) {
    net *n = l->net;
    link *old = net_find(n, &l->id), *dial = net_find_dial(n, &l->id, false), *held = net_find_held(n, &l->id);
    if (old != NULL && l->opened_event < old->up_event) {
        refuse(l, REFUSE_DUPLICATE, "there is a link between these two peers already");
        return;
    }
    if (old != NULL && is_another_process(l, old)) {
        refuse_another_process(l, old);
        return;
    }
    if (old == NULL && n->up >= n->config.max_links) {
        refuse(l, REFUSE_FULL, "this peer has reached its limit of links: dial another one");
        return;
    }
    if (held != NULL && held != l) link_fall_unreported(held);  // the dialing peer has returned since
    if (dial != NULL && memcmp(&n->self, &l->id, sizeof l->id) < 0) {
        link_set_state(l, LINK_HELD);
        return;
    }
    if (dial != NULL) link_fall_unreported(dial);
    replace_link(old);
    if (send_welcome(l)) establish_link(l);
}

void greeting_release(link *l) {
    link_set_state(l, LINK_GREETING);
    admit(l);
}

static void answer_enquiry(link *l) {
    if (!l->net->has_run || l->net->description == NULL) {
        refuse(l, REFUSE_NOT_READY,
               "this peer has not received the run's description yet: retry in a moment, or ask the leader");
        return;
    }
    l->enquiry = true;
    if (!send_welcome(l)) return;
    l->end_unreported = true;
    link_leave(l, "%s requested the run's description", link_name(l));
}

static void refuse_run(link *l, const handshake_hello *hello) {
    char wanted[2 * SHORT_HASH + 1], here[2 * SHORT_HASH + 1], sentence[NET_MAX_REASON];
    short_hex(&hello->run, wanted);
    short_hex(&l->net->run.hash, here);
    snprintf(sentence, sizeof sentence,
             "run %s was requested, and this peer is in run %s: check the ticket, and that both read the same run "
             "description",
             wanted, here);
    refuse(l, REFUSE_OTHER_RUN, sentence);
}

static void refuse_generation(link *l, const handshake_hello *hello) {
    char sentence[NET_MAX_REASON];
    snprintf(sentence, sizeof sentence,
             "generation %llu was requested, and the run is in generation %llu after a rollback: join it again",
             (unsigned long long)hello->generation, (unsigned long long)l->net->run.generation);
    refuse(l, REFUSE_OTHER_GENERATION, sentence);
}

static void refuse_kernels(link *l, const handshake_hello *hello) {
    char theirs[2 * SHORT_HASH + 1], here[2 * SHORT_HASH + 1], sentence[NET_MAX_REASON];
    short_hex(&hello->kernels, theirs);
    short_hex(&l->net->run.kernels, here);
    snprintf(sentence, sizeof sentence,
             "kernels of class %s cannot compute this run, which needs class %s: use the same version of "
             "braid, and a similar processor",
             theirs, here);
    refuse(l, REFUSE_OTHER_KERNELS, sentence);
}

static void refuse_version(link *l, uint16_t version) {
    char sentence[NET_MAX_REASON];
    snprintf(sentence, sizeof sentence,
             "protocol version %u was offered, and this peer uses version %u: install the same version of braid "
             "on both",
             version, WIRE_VERSION);
    refuse(l, REFUSE_OTHER_VERSION, sentence);
}

static void receive_hello(link *l, const frame_event *event) {
    net *n = l->net;
    handshake_hello hello = {0};
    handshake_result result = handshake_hello_decode(event->bytes, event->count, &hello);
    if (result == HANDSHAKE_OTHER_VERSION) {
        refuse_version(l, hello.version);
        return;
    }
    if (result != HANDSHAKE_OK) {
        refuse(l, REFUSE_MALFORMED, "the greeting was malformed");
        return;
    }
    l->peer.kind = hello.kind;
    l->peer.generation = hello.generation;
    copy_text(l->peer.address, sizeof l->peer.address, hello.address);
    copy_text(l->peer.software, sizeof l->peer.software, hello.software);
    if (is_zero(hello.run.bytes, sizeof hello.run.bytes)) {
        answer_enquiry(l);
    } else if (!n->has_run) {
        refuse(l, REFUSE_NOT_READY, "this peer is not part of the run yet: dial again in a moment");
    } else if (!hash_equal(&hello.run, &n->run.hash)) {
        refuse_run(l, &hello);
    } else if (hello.generation != n->run.generation) {
        refuse_generation(l, &hello);
    } else if (!hash_equal(&hello.kernels, &n->run.kernels)) {
        refuse_kernels(l, &hello);
    } else {
        admit(l);
    }
}

static void receive_description(link *l, const handshake_welcome *w) {
    const net_callbacks *c = &l->net->callbacks;
    if (w->description == NULL || c->description == NULL) {
        link_leave(l, "%s did not send the run's description", link_name(l));
        return;
    }
    l->end_unreported = true;
    net_run run = {.hash = w->run,
                   .generation = w->generation,
                   .kernels = w->kernels,
                   .leader = w->leader,
                   .leader_address = w->leader_address,
                   .description = w->description,
                   .description_bytes = w->description_bytes};
    // the dial ends before the callback, so that the callback may dial the same peer again
    link_leave(l, "the description was received");
    c->description(c->context, &l->id, &run);
}

static void receive_welcome(link *l, const frame_event *event) {
    net *n = l->net;
    handshake_welcome w = {0};
    handshake_result result = handshake_welcome_decode(event->bytes, event->count, &w);
    if (result == HANDSHAKE_OTHER_VERSION) {
        link_leave(
            l,
            "%s uses protocol version %u, and this peer uses version %u: install the same version of braid on both",
            link_name(l), w.version, WIRE_VERSION);
        return;
    }
    if (result != HANDSHAKE_OK) {
        link_leave(l, "%s answered with a malformed greeting", link_name(l));
        return;
    }
    if (l->enquiry) {
        receive_description(l, &w);
        return;
    }
    if (!hash_equal(&w.run, &n->run.hash) || w.generation != n->run.generation) {
        link_leave(l, "%s is in another run", link_name(l));
        return;
    }
    l->peer.kind = w.kind;
    l->peer.generation = w.generation;
    copy_text(l->peer.address, sizeof l->peer.address, w.address);
    copy_text(l->peer.software, sizeof l->peer.software, w.software);
    replace_link(net_find(n, &l->id));
    link *held = net_find_held(n, &l->id);
    if (held != NULL) {
        held->end_unreported = true;
        refuse(held, REFUSE_DUPLICATE, "the link was opened from the other side");
    }
    establish_link(l);
}

static void receive_refuse(link *l, const frame_event *event) {
    handshake_refuse r = {0};
    if (handshake_refuse_decode(event->bytes, event->count, &r) != HANDSHAKE_OK) {
        link_leave(l, "%s answered with a malformed refusal", link_name(l));
        return;
    }
    l->end_unreported = r.code == REFUSE_DUPLICATE && net_find(l->net, &l->id) != NULL;
    link_leave(l, "%s refused the link: %s", link_name(l),
               r.sentence[0] != '\0' ? r.sentence : handshake_refusal_text(r.code));
}

void greeting_receive(link *l, const frame_event *event) {
    frame_kind kind = event->frame;
    if (l->state == LINK_GREETING && !l->dialed && kind == FRAME_HELLO) {
        receive_hello(l, event);
    } else if (l->state == LINK_GREETING && l->dialed && kind == FRAME_WELCOME) {
        receive_welcome(l, event);
    } else if (l->state == LINK_GREETING && l->dialed && kind == FRAME_REFUSE) {
        receive_refuse(l, event);
    } else {
        link_leave(l, "%s sent a greeting out of order", link_name(l));
    }
}

void greeting_secured(link *l) {
    l->id = *tls_peer_id(l->tls);
    l->known = l->reached = true;
    link_set_state(l, LINK_GREETING);
    if (id_equal(&l->id, &l->net->self)) {
        link_leave(l, "%s has the key of this peer: every peer needs a key of its own (`braid keygen`)", link_name(l));
    } else if (l->dialed) {
        send_hello(l);
    }
}
