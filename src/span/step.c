// Events to the protocol, and its effects.
#include "node/clock.h"
#include "span/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const uint64_t MILLISECOND = 1000000;

static uint64_t random_number(void) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) number = clock_now_ns();
    return number ? number : 1;
}

static uint64_t unix_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / MILLISECOND;
}

braid_err span_core_new(span_peer *p, braid_error *error) {
    session_config config = {
        .self = identity_id(p->config.identity),
        .incarnation = random_number(),
        .version = unix_ms(),
        .slots = p->config.origin && !span_holds(p) ? 1 : SPAN_SLOTS,
        .own = p->config.origin ? SPAN_OWN : 0,
        .kept_bytes = p->config.memory / 8,
        .dead_ns = p->config.dead_ns,
        .random_seed = random_number(),
        .route = session_route_spans,
    };
    strcpy(config.address, p->address);
    size_t own = (session_peer_bytes(&config) + 63) / 64 * 64,
           bytes = own + (session_route_spans_bytes() + 63) / 64 * 64;
    p->memory = aligned_alloc(64, bytes);
    if (!p->memory) return braid_fail(error, BRAID_MEMORY, "no memory for the protocol: it needs %zu bytes", bytes);
    memset(p->memory, 0, bytes);
    config.route_context = (char *)p->memory + own;
    p->core = session_peer_init(p->memory, &config, clock_now_ns());
    return BRAID_OK;
}

// --- effects

static void send_effect(span_peer *p, const session_effect *e) {
    span_parcel *parcel = span_parcel_new(e);
    if (!parcel) {
        span_fail(p, &(braid_error){BRAID_MEMORY, "no memory for a message"});
        return;
    }
    if (span_fill(p, e, parcel)) span_send(p, parcel);
}

static void dial_effect(span_peer *p, const session_effect *e) {
    braid_error error;
    if (!net_dial(p->net, &e->id, e->address, &error)) return;
    if (p->failed.count < SPAN_MAX_DUE) p->failed.id[p->failed.count++] = e->id;
}

static void note_tell(span_peer *p, const session_tell *t) {
    char id[9] = "";
    id_hex(t->id.bytes, 4, id);
    switch (t->kind) {
    case SESSION_TELL_WAITING:
        snprintf(p->told.event, sizeof p->told.event, "no peer holds layer %u; texts wait for it", t->layer);
        break;
    case SESSION_TELL_REPLACED:
        snprintf(p->told.event, sizeof p->told.event, "peer %s is replaced: %s", id, session_reason_name(t->reason));
        break;
    case SESSION_TELL_REPAIRED:
        p->told.repairs++;
        p->told.repair_ns += t->ns;
        if (t->ns > p->told.longest_repair_ns) p->told.longest_repair_ns = t->ns;
        break;
    default: break;
    }
    if (p->callbacks.tell) p->callbacks.tell(p->callbacks.context, t);
}

static void do_effect(span_peer *p, const session_effect *e) {
    switch (e->kind) {
    case SESSION_EFFECT_SEND: send_effect(p, e); break;
    case SESSION_EFFECT_DIAL: dial_effect(p, e); break;
    case SESSION_EFFECT_RUN: span_run(p, e); break;
    case SESSION_EFFECT_IMPORT: span_import(p, e); break;
    case SESSION_EFFECT_ADOPT:
    case SESSION_EFFECT_NAME: span_pages(p, e); break;
    case SESSION_EFFECT_FREE: span_slot_free(p, e->slot); break;
    case SESSION_EFFECT_FORGET: kept_forget(&p->kept[e->slot], e->position); break;
    case SESSION_EFFECT_RELEASE: blobs_release(p->blobs, e->blob); break;
    case SESSION_EFFECT_OUTPUT: span_output(p, e); break;
    case SESSION_EFFECT_TELL: note_tell(p, &e->tell); break;
    case SESSION_EFFECT_DRAINED:
        if (p->state.draining) span_leave(p);
        break;
    case SESSION_EFFECTS: break;
    }
}

static void arm(span_peer *p) {
    uint64_t now = clock_now_ns(), at = session_deadline(p->core);
    uint64_t wait = at > now ? (at - now) / MILLISECOND + 1 : 0;
    uv_timer_start(&p->deadline, p->deadline.timer_cb, wait < 60000 ? wait : 60000, 0);
}

static void step(span_peer *p, const session_event *e) {
    session_effect effect;
    session_step(p->core, clock_now_ns(), e);
    while (session_next_effect(p->core, &effect)) do_effect(p, &effect);
}

// A message to this peer itself, or the failure of a dial.
static bool step_pending(span_peer *p) {
    if (p->failed.count > 0) {
        braid_id id = p->failed.id[--p->failed.count];
        step(p, &(session_event){.kind = SESSION_EVENT_LINK_DOWN, .id = id});
        return true;
    }
    span_parcel *parcel = p->here.first;
    if (!parcel || !parcel->ready) return false;
    p->here.first = parcel->next;
    if (!p->here.first) p->here.last = &p->here.first;
    session_message *msg = malloc(sizeof *msg);
    bool good = msg && session_message_decode(parcel->bytes, parcel->count, msg);
    if (good)
        step(p, &(session_event){.kind = SESSION_EVENT_MESSAGE, .id = parcel->to, .msg = msg, .blob = parcel->payload});
    else if (parcel->payload)
        blobs_release(p->blobs, parcel->payload);
    free(msg);
    free(parcel);
    return true;
}

void span_feed(span_peer *p, const session_event *e) {
    if (p->phase != SPAN_RUNNING || !p->core) return;
    BRAID_ASSERT(!p->stepping);
    p->stepping = true;
    step(p, e);
    while (p->phase == SPAN_RUNNING && step_pending(p)) continue;
    p->stepping = false;
    if (p->phase == SPAN_RUNNING) arm(p);
}
