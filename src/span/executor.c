#include "span/executor.h"

#include "infer/engine.h"
#include "node/clock.h"
#include "span/names.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum order_kind { ORDER_BEGIN, ORDER_SUPPLY, ORDER_READ, ORDER_CLOSE } order_kind;

// A call of the scheduler, for the loop's thread.
typedef struct order {
    struct order *next;
    order_kind kind;
    uint64_t session;
    uint32_t first, count, rows;
    bool adapts;
    braid_hash adapter;  // of ORDER_BEGIN
    uint32_t *tokens;    // [count] of a begin and of a read, behind x
    float x[];           // [count, dim] of a read and of a supply
} order;

// A session on the loop's thread.
typedef struct chain_session {
    bool used, began, reading, full;
    bool names_due, adapts;
    bool waits_began;  // its spans look into their prefix caches
    names names;
    uint32_t named;  // pages
    uint64_t number;
    uint32_t home, end, got;  // rows [home, end) of the read, at least the last one; so many are there
    uint32_t rows;            // of them, those that the result has
    uint32_t tokens;          // that it needs room for
    float *x;                 // [end - home, dim]
    uint64_t waits_ns;        // since when it has no path, 0: it has one
} chain_session;

typedef struct chain {
    executor base;
    span_peer *peer;
    size_t dim;
    uint32_t context;
    braid_hash model;
    span_callbacks user;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    // under `lock`
    order *first, **last;
    executor_room room;
    char *swarm;
    bool silent;  // executor_free was called
    executor_listener listener;
    braid_error failed;  // of the loop's thread
    // of the loop's thread
    bool refused;  // a session had no room: the scheduler tries again after `changed`
    chain_session session[SPAN_OWN];
} chain;

// --- results

static void answer(chain *c, const executor_result *result) {
    pthread_mutex_lock(&c->lock);
    bool silent = c->silent || !c->listener.result;
    executor_listener to = c->listener;
    pthread_mutex_unlock(&c->lock);
    if (!silent) to.result(to.context, result);
}

static void tell_changed(chain *c) {
    pthread_mutex_lock(&c->lock);
    bool silent = c->silent || !c->listener.changed;
    executor_listener to = c->listener;
    pthread_mutex_unlock(&c->lock);
    if (!silent) to.changed(to.context);
}

static chain_session *find(chain *c, uint64_t number) {
    for (uint32_t i = 0; i < SPAN_OWN; i++)
        if (c->session[i].used && c->session[i].number == number) return &c->session[i];
    return NULL;
}

static void forget(chain *c, chain_session *s) {
    span_peer_end(c->peer, s->number);
    free(s->x);
    names_close(&s->names);
    *s = (chain_session){0};
}

static void end_session(chain *c, chain_session *s, executor_outcome outcome, const braid_error *error) {
    uint64_t number = s->number;
    forget(c, s);
    answer(c, &(executor_result){.session = number, .outcome = outcome, .error = error});
}

// --- orders

static void refuse(chain *c, uint64_t number) {
    c->refused = true;
    answer(c, &(executor_result){.session = number, .outcome = EXECUTOR_FULL});
}

static bool open_session(chain *c, chain_session *s, const order *o, uint32_t room) {
    session_key keys[SESSION_MAX_KEYS];
    span_text text = {.room = room, .prompt = o->count, .keys = keys};
    *s = (chain_session){.used = true, .number = o->session, .tokens = o->count, .waits_ns = clock_now_ns()};
    names_open(&s->names, &c->model, o->adapts ? &o->adapter : NULL);
    if (o->adapts) text.adapter = span_adapter_id(&o->adapter);
    s->adapts = o->adapts;
    if (names_put(&s->names, o->tokens, 0, o->count))
        text.key_count = (uint16_t)names_keys(&s->names, o->count, 0, keys, SESSION_MAX_KEYS);
    s->waits_began = text.key_count > 0;
    if (span_peer_open(c->peer, o->session, &text)) return true;
    names_close(&s->names);
    *s = (chain_session){0};
    return false;
}

static void do_begin(chain *c, const order *o) {
    chain_session *s = NULL;
    for (uint32_t i = 0; i < SPAN_OWN && !s; i++)
        if (!c->session[i].used) s = &c->session[i];
    uint64_t room = (uint64_t)o->count + EXECUTOR_AHEAD_TOKENS;
    if (room > c->room.session_tokens) room = c->room.session_tokens;  // written by this thread alone
    if (room < o->count) room = o->count;
    if (s && open_session(c, s, o, (uint32_t)room)) return;
    refuse(c, o->session);
}

static void do_read(chain *c, const order *o) {
    chain_session *s = find(c, o->session);
    if (!s) return;  // closed meanwhile
    free(s->x);
    s->named = s->named < o->first / ENGINE_PAGE_TOKENS ? s->named : o->first / ENGINE_PAGE_TOKENS;
    if (!names_put(&s->names, o->tokens, o->first, o->count)) names_close(&s->names);
    uint32_t rows = o->rows > 0 ? o->rows : 1;
    s->x = malloc(rows * c->dim * sizeof *s->x);
    s->reading = true;
    s->end = s->tokens = o->first + o->count;
    s->rows = o->rows;
    s->home = s->end - rows;
    s->got = 0;
    if (s->x && span_peer_step(c->peer, o->session, o->first, o->x, o->count, s->home)) return;
    braid_error error;
    braid_fail(&error, BRAID_MEMORY, "no memory for the rows of a text");
    end_session(c, s, EXECUTOR_FAILED, &error);
}

static void do_supply(chain *c, const order *o) {
    chain_session *s = find(c, o->session);
    if (!s || span_peer_supply(c->peer, o->session, o->first, o->x, o->count)) return;
    braid_error error;
    braid_fail(&error, BRAID_MEMORY, "no memory for the rows of a text");
    end_session(c, s, EXECUTOR_FAILED, &error);
}

// Names the pages that are complete now, for later texts.
static void name_pages(chain *c, chain_session *s) {
    session_key keys[SESSION_MAX_NAMES];
    uint32_t count;
    while ((count = names_keys(&s->names, s->end, s->named, keys, SESSION_MAX_NAMES)) > 0) {
        span_peer_name(c->peer, s->number, s->named, keys, count);
        s->named += count;
    }
}

// Before the next read adds tokens that no span has yet.
static void name_due(chain *c) {
    for (uint32_t i = 0; i < SPAN_OWN; i++) {
        chain_session *s = &c->session[i];
        if (s->used && s->names_due) name_pages(c, s);
        s->names_due = false;
    }
}

static void do_order(chain *c, const order *o) {
    chain_session *s = find(c, o->session);
    switch (o->kind) {
    case ORDER_BEGIN: do_begin(c, o); break;
    case ORDER_SUPPLY: do_supply(c, o); break;
    case ORDER_READ: do_read(c, o); break;
    case ORDER_CLOSE:
        if (s) forget(c, s);
        break;
    }
}

static order *take_orders(chain *c) {
    pthread_mutex_lock(&c->lock);
    order *list = c->first;
    c->first = NULL;
    c->last = &c->first;
    pthread_mutex_unlock(&c->lock);
    return list;
}

static void say_why_it_waits(chain *c, const chain_session *s, braid_error *error) {
    span_room room;
    char blocker[SPAN_MAX_NOTE];
    span_peer_room(c->peer, &room);
    span_peer_blocker(&room, blocker);
    if (*blocker)
        braid_fail(error, BRAID_NETWORK, "%s", blocker);
    else if (s->tokens > room.longest)
        braid_fail(error, BRAID_LIMIT,
                   "a text of %u tokens is too long: the peers' memory has room for %u tokens of one text; give the "
                   "peers more (--max-memory)",
                   s->tokens, room.longest);
    else
        braid_fail(error, BRAID_NETWORK, "%s",
                   s->adapts
                       ? "no peers with all layers and this adapter can reach each other; start them with the same "
                         "--adapter"
                       : "no peers with all layers can reach each other");
}

// Texts without a path or without room. The protocol's notifications come inside its steps, where
// no session may be ended.
static void end_stuck(chain *c) {
    uint64_t now = clock_now_ns(), patience = (uint64_t)EXECUTOR_PATIENCE_MS * 1000000;
    for (uint32_t i = 0; i < SPAN_OWN; i++) {
        chain_session *s = &c->session[i];
        if (!s->used) continue;
        if (s->full) {
            c->refused = true;
            end_session(c, s, s->began ? EXECUTOR_LOST : EXECUTOR_FULL, NULL);
        } else if (s->waits_ns && now - s->waits_ns > patience) {
            braid_error error;
            say_why_it_waits(c, s, &error);
            end_session(c, s, EXECUTOR_FAILED, &error);
        }
    }
}

static void look(chain *c) {
    span_room room;
    char blocker[SPAN_MAX_NOTE];
    span_peer_room(c->peer, &room);
    span_peer_blocker(&room, blocker);
    char *swarm = span_peer_status(c->peer);
    executor_room now = {.session_tokens = c->context < room.longest ? c->context : room.longest,
                         .free_tokens = room.free_tokens,
                         .page_tokens = 1,
                         .ready = !*blocker};
    snprintf(now.blocker, sizeof now.blocker, "%.127s", blocker);
    if (!now.ready) now.session_tokens = c->context;
    pthread_mutex_lock(&c->lock);
    bool changed = c->refused || now.ready != c->room.ready || now.free_tokens > c->room.free_tokens ||
                   strcmp(now.blocker, c->room.blocker) != 0;
    c->refused = false;
    c->room = now;
    char *old = c->swarm;
    if (swarm)
        c->swarm = swarm;
    else
        old = NULL;
    pthread_mutex_unlock(&c->lock);
    free(old);
    if (changed) tell_changed(c);
}

static void on_wake(void *context) {
    chain *c = context;
    name_due(c);
    for (order *list = take_orders(c); list;) {
        order *o = list;
        list = o->next;
        do_order(c, o);
        free(o);
    }
    end_stuck(c);
}

static void on_tick(void *context) {
    on_wake(context);
    look(context);
}

// --- the protocol's side

static void on_output(void *context, uint64_t number, uint32_t position, uint32_t count, const float *x) {
    chain *c = context;
    chain_session *s = find(c, number);
    if (!s || !s->reading || position != s->home + s->got || count > s->end - position) return;
    memcpy(s->x + s->got * c->dim, x, count * c->dim * sizeof *x);
    s->got += count;
    if (s->home + s->got < s->end) return;
    s->reading = false;
    s->names_due = true;
    span_peer_wake(c->peer);
    answer(c, &(executor_result){.session = number, .outcome = EXECUTOR_READ, .rows = s->rows, .x = s->x});
}

static void tell_began(chain *c, chain_session *s, uint32_t cached) {
    if (s->began) return;
    s->began = true;
    answer(c, &(executor_result){.session = s->number, .outcome = EXECUTOR_BEGAN, .cached = cached});
}

static void on_tell(void *context, const session_tell *t) {
    chain *c = context;
    chain_session *s = find(c, t->number);
    if (s && t->kind == SESSION_TELL_PATH) {
        s->waits_ns = 0;
        if (!s->waits_began) tell_began(c, s, 0);
    } else if (s && t->kind == SESSION_TELL_BEGAN) {
        tell_began(c, s, t->tokens);
    } else if (s && t->kind == SESSION_TELL_WAITING) {
        if (!s->waits_ns) s->waits_ns = clock_now_ns();
    } else if (s && t->kind == SESSION_TELL_FULL) {
        s->full = true;
        span_peer_wake(c->peer);
    }
    if (c->user.tell) c->user.tell(c->user.context, t);
}

static void on_note(void *context, const char *text) {
    chain *c = context;
    if (c->user.note) c->user.note(c->user.context, text);
}

// --- the scheduler's side

static void chain_listen(executor *e, const executor_listener *listener) {
    chain *c = (chain *)e;
    pthread_mutex_lock(&c->lock);
    c->listener = *listener;
    pthread_mutex_unlock(&c->lock);
}

static void give(chain *c, order *o) {
    o->next = NULL;
    pthread_mutex_lock(&c->lock);
    *c->last = o;
    c->last = &o->next;
    pthread_mutex_unlock(&c->lock);
}

static order *order_new(chain *c, order_kind kind, uint64_t session, size_t numbers, size_t tokens) {
    order *o = malloc(sizeof *o + numbers * sizeof o->x[0] + tokens * sizeof o->tokens[0]);
    if (o) *o = (order){.kind = kind, .session = session, .tokens = (uint32_t *)(void *)(o->x + numbers)};
    if (o || kind == ORDER_CLOSE) return o;
    braid_error error;
    braid_fail(&error, BRAID_MEMORY, "no memory for the rows of a text");
    answer(c, &(executor_result){.session = session, .outcome = EXECUTOR_FAILED, .error = &error});
    return NULL;
}

static void chain_begin(executor *e, uint64_t session, const executor_adapter *adapts, const uint32_t *tokens,
                        uint32_t count) {
    chain *c = (chain *)e;
    order *o = order_new(c, ORDER_BEGIN, session, 0, count);
    if (!o) return;
    o->count = count;
    o->adapts = adapts != NULL;
    if (adapts) o->adapter = adapts->key;
    if (count > 0) memcpy(o->tokens, tokens, count * sizeof *tokens);
    give(c, o);
    span_peer_wake(c->peer);
}

static void chain_read(executor *e, const executor_step *steps, uint32_t count) {
    chain *c = (chain *)e;
    for (uint32_t i = 0; i < count; i++) {
        const executor_step *s = &steps[i];
        size_t numbers = s->count * c->dim;
        order *o = order_new(c, ORDER_READ, s->session, numbers, s->count);
        if (!o) continue;
        o->first = s->first;
        o->count = s->count;
        o->rows = s->rows;
        memcpy(o->x, s->x, numbers * sizeof *s->x);
        memcpy(o->tokens, s->tokens, s->count * sizeof *s->tokens);
        give(c, o);
    }
    span_peer_wake(c->peer);
}

static void chain_supply(executor *e, uint64_t session, uint32_t first, const float *x, uint32_t count) {
    chain *c = (chain *)e;
    size_t numbers = count * c->dim;
    order *o = order_new(c, ORDER_SUPPLY, session, numbers, 0);
    if (!o) return;
    o->first = first;
    o->count = count;
    memcpy(o->x, x, numbers * sizeof *x);
    give(c, o);
}

// The next read begins at `length`, and takes the later tokens back.
static void chain_truncate(executor *e, uint64_t session, uint32_t length) { (void)e, (void)session, (void)length; }

static void chain_close(executor *e, uint64_t session) {
    chain *c = (chain *)e;
    order *o = order_new(c, ORDER_CLOSE, session, 0, 0);
    if (!o) return;
    give(c, o);
    span_peer_wake(c->peer);
}

static void chain_room(executor *e, executor_room *out) {
    chain *c = (chain *)e;
    pthread_mutex_lock(&c->lock);
    *out = c->room;
    if (c->failed.code) {
        out->ready = false;
        snprintf(out->blocker, sizeof out->blocker, "%.127s", c->failed.text);
    }
    pthread_mutex_unlock(&c->lock);
}

static char *chain_swarm(executor *e) {
    chain *c = (chain *)e;
    pthread_mutex_lock(&c->lock);
    char *text = c->swarm ? strdup(c->swarm) : NULL;
    pthread_mutex_unlock(&c->lock);
    return text;
}

static void chain_delete(chain *c) {
    span_peer_free(c->peer);
    for (uint32_t i = 0; i < SPAN_OWN; i++) {
        free(c->session[i].x);
        names_close(&c->session[i].names);
    }
    for (order *o = c->first; o;) {
        order *next = o->next;
        free(o);
        o = next;
    }
    pthread_mutex_destroy(&c->lock);
    free(c->swarm);
    free(c);
}

static void chain_free(executor *e) {
    chain *c = (chain *)e;
    pthread_mutex_lock(&c->lock);
    c->silent = true;
    pthread_mutex_unlock(&c->lock);
    span_peer_stop(c->peer);
    pthread_join(c->thread, NULL);
    chain_delete(c);
}

static const executor_calls calls = {.listen = chain_listen,
                                     .begin = chain_begin,
                                     .read = chain_read,
                                     .supply = chain_supply,
                                     .truncate = chain_truncate,
                                     .close = chain_close,
                                     .room = chain_room,
                                     .swarm = chain_swarm,
                                     .free = chain_free};

static void *chain_main(void *argument) {
    chain *c = argument;
    braid_error error = {0};
    if (span_peer_run(c->peer, &error) == BRAID_OK) return NULL;
    pthread_mutex_lock(&c->lock);
    c->failed = error;
    pthread_mutex_unlock(&c->lock);
    on_note(c, error.text);
    tell_changed(c);
    return NULL;
}

braid_err executor_chain_new(const span_config *config, executor **out, braid_error *error) {
    *out = NULL;
    chain *c = calloc(1, sizeof *c);
    if (!c) return braid_fail(error, BRAID_MEMORY, "no memory for the swarm's scheduler");
    c->base.calls = &calls;
    c->last = &c->first;
    c->dim = config->model.dim;
    c->context = config->model.context;
    c->model = span_model_hash(&config->model);
    c->user = config->callbacks;
    c->room = (executor_room){.session_tokens = c->context, .page_tokens = 1, .blocker = "the peers are starting"};
    pthread_mutex_init(&c->lock, NULL);
    span_config own = *config;
    if (!own.guest) own.guest = &span_lending;
    own.callbacks = (span_callbacks){
        .context = c, .note = on_note, .output = on_output, .tell = on_tell, .wake = on_wake, .tick = on_tick};
    braid_err err = span_peer_new(&own, &c->peer, error);
    if (!err && !tensor_thread_start(&c->thread, chain_main, c))
        err = braid_fail(
            error, BRAID_STATE,
            "cannot start a thread for the swarm; raise the limits on memory and processes (ulimit -v, ulimit -u)");
    if (err)
        chain_delete(c);
    else
        *out = &c->base;
    return err;
}

void executor_chain_ticket(executor *e, char text[TICKET_MAX_TEXT]) { span_peer_ticket(((chain *)e)->peer, text); }
