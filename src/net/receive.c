#include "net/inside.h"

#include <stdlib.h>
#include <string.h>

static void receive_message(link *l, const frame_event *event) {
    l->stats.control_in += event->count + FRAME_HEADER_BYTES;
    l->stats.messages_in++;
    const net_callbacks *c = &l->net->callbacks;
    c->message(c->context, &l->id, event->bytes, event->count, NULL, 0, 0);
}

static void receive_begin(link *l, const frame_event *event) {
    const net_callbacks *c = &l->net->callbacks;
    l->stats.control_in += event->count + FRAME_MAX_PREFIX_BYTES;
    incoming in = {
        .active = true, .message = malloc(event->count), .message_bytes = event->count, .bytes = event->payload_bytes};
    if (in.message == NULL) {
        link_leave(l, "no memory for a message from %s", link_name(l));
        return;
    }
    memcpy(in.message, event->bytes, event->count);
    in.payload = c->payload_alloc(c->context, &l->id, in.message, in.message_bytes, in.bytes, &in.token);
    if (link_is_open(l)) {
        l->in[event->transfer] = in;
        return;
    }
    // the callback closed the link, perhaps the whole net
    if (in.payload != NULL) c->payload_drop(c->context, in.payload, in.token);
    free(in.message);
}

static void receive_bytes(link *l, const frame_event *event) {
    incoming *in = &l->in[event->transfer];
    if (in->payload != NULL) memcpy(in->payload + in->filled, event->bytes, event->count);
    in->filled += event->count;  // the decoder holds it below in->bytes
    l->stats.bulk_in += event->count;
}

static void receive_end(link *l, const frame_event *event) {
    const net_callbacks *c = &l->net->callbacks;
    incoming in = l->in[event->transfer];
    l->in[event->transfer] = (incoming){0};
    l->stats.messages_in++;
    c->message(c->context, &l->id, in.message, in.message_bytes, in.payload, in.bytes, in.token);
    free(in.message);
}

void receive_event(link *l, const frame_event *event) {
    switch (event->kind) {
    case FRAME_EVENT_MESSAGE: receive_message(l, event); break;
    case FRAME_EVENT_BEGIN: receive_begin(l, event); break;
    case FRAME_EVENT_PAYLOAD: receive_bytes(l, event); break;
    case FRAME_EVENT_END: receive_end(l, event); break;
    default: break;
    }
}

void receive_drop(link *l) {
    const net_callbacks *c = &l->net->callbacks;
    for (uint32_t i = 0; i < WIRE_MAX_TRANSFERS; i++) {
        incoming in = l->in[i];
        l->in[i] = (incoming){0};
        if (in.active && in.payload != NULL) c->payload_drop(c->context, in.payload, in.token);
        free(in.message);
    }
}
