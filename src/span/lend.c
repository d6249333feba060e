// A peer that computes its layers with the adapter of a client. It has an adapter from ADAPT to
// FORGET, which is one iteration, in memory that is overwritten afterwards. One thread of libuv's
// pool computes at a time, for all clients in the order of their messages.
#include "node/clock.h"
#include "span/inside.h"
#include "span/tuning.h"
#include "train/kernel_class.h"
#include "tune/base.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEND_MAX = 32,                  // adapters at once
    LEND_MEMORY = 4,                // they may have this part of the peer's memory
    LEND_SHARE = 4,                 // and one has this part of it, if that suffices
    LEND_QUEUE_MAX = 4,             // waiting computations of one adapter
    LEND_STACK_BYTES = 1960 << 10,  // more than the kernels of a product have on the stack
    LEND_SCRUB_NS = 200000000,      // the most that threads wait for each other
};

typedef struct loan {
    bool used, closing;  // closing: freed when no computation has it
    braid_id client;
    tuning_name name;
    tuning_adapt about;
    size_t rows, queued;
    float *parameters;
    uint32_t *documents;  // of the microbatch under way
    bool keeps;           // the microbatch can go backward
    tune_base *base;
    uint64_t bytes;
} loan;

typedef struct lend_job {
    struct lend_job *next;
    loan *loan;
    tuning_message asked;
    blob_id in, out;  // payloads; 0: none
    const void *from;
    float *to;
    uint64_t memory, share;  // for a new base
    bool refused;
    tuning_refuse refuse;
} lend_job;

struct lender {
    span_peer *peer;
    uv_work_t request;
    bool computing, closed;
    tensor_pool *pool;
    bool knows_kernels;
    braid_hash kernels;
    loan loan[LEND_MAX];
    lend_job *first, **last, *now;
};

// --- loans

static size_t dim_of(const lender *l) { return l->peer->model.dim; }

static loan *find(lender *l, const braid_id *client, uint64_t session) {
    for (uint32_t i = 0; l && i < LEND_MAX; i++) {
        loan *one = &l->loan[i];
        if (one->used && !one->closing && one->name.session == session && id_equal(&one->client, client)) return one;
    }
    return NULL;
}

static uint64_t used_bytes(const lender *l, uint32_t *adapters) {
    uint64_t bytes = 0;
    *adapters = 0;
    for (uint32_t i = 0; i < LEND_MAX; i++) {
        *adapters += l->loan[i].used;
        bytes += l->loan[i].used ? l->loan[i].bytes : 0;
    }
    return bytes;
}

static void tell_changed(lender *l) {
    span_peer *p = l->peer;
    uint32_t adapters;
    uint64_t bytes = used_bytes(l, &adapters);
    if (p->callbacks.lends) p->callbacks.lends(p->callbacks.context, adapters, bytes);
}

static void loan_free(lender *l, loan *one) {
    if (one->parameters) explicit_bzero(one->parameters, one->about.parameters * sizeof *one->parameters);
    free(one->parameters);
    free(one->documents);
    if (one->base) tune_base_wipe(one->base);
    tune_base_free(one->base);
    *one = (loan){.used = false};
    tell_changed(l);
}

// Frees it now, or after its last computation.
static void loan_end(lender *l, loan *one) {
    one->closing = true;
    if (one->queued == 0) loan_free(l, one);
}

// --- answers

static void send_refusal(span_peer *p, const braid_id *to, tuning_name name, tuning_refusal reason, const char *text) {
    tuning_message msg = {.kind = TUNING_REFUSE, .name = name, .refuse = {.reason = (uint8_t)reason}};
    snprintf(msg.refuse.text, sizeof msg.refuse.text, "%s", text);
    for (char *at = msg.refuse.text; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';  // messages have ASCII
    tuning_send(p, to, &msg, 0);
}

static void answer(lender *l, lend_job *task) {
    const loan *one = task->loan;
    tuning_message msg = {.name = task->asked.name};
    if (task->asked.kind == TUNING_ADAPT) return;
    if (task->asked.kind == TUNING_FORWARD) {
        msg.kind = TUNING_OUTPUT;
        msg.output.rows = (uint32_t)one->rows;
    } else {
        msg.kind = TUNING_GRADIENT;
        msg.gradient.rows = (uint32_t)one->rows;
        msg.gradient.parameters = one->about.parameters;
    }
    tuning_send(l->peer, &one->client, &msg, task->out);
    task->out = 0;
}

// --- computing, on a thread of the pool

static void refuse_job(lend_job *task, tuning_refusal reason, const char *text) {
    task->refused = true;
    task->refuse.reason = (uint8_t)reason;
    snprintf(task->refuse.text, sizeof task->refuse.text, "%.*s", TUNING_TEXT - 1, text);
}

static tune_base_config config_of(const lender *l, const loan *one, uint64_t memory) {
    const tuning_adapt *a = &one->about;
    return (tune_base_config){.file = l->peer->config.file,
                              .pool = l->pool,
                              .adapter = {a->rank, a->alpha, a->rank_stabilised, a->roles},
                              .part = {a->layer_begin, a->layer_end},
                              .sequences = a->sequences,
                              .tokens = a->tokens,
                              .max_memory = memory};
}

static braid_err check_kernels(lender *l, const tuning_adapt *a, lend_job *task, braid_error *error) {
    if (!l->pool) {
        braid_err err = tensor_pool_new(l->peer->config.threads, &l->pool, error);
        if (err) return err;
    }
    if (!l->knows_kernels) {
        braid_err err = kernel_class_of(model_file_config(l->peer->config.file), false, &l->kernels, error);
        if (err) return err;
        l->knows_kernels = true;
    }
    if (!hash_equal(&l->kernels, &a->kernels))
        refuse_job(task, TUNING_OTHER, "its processor computes other bits than the client's");
    return BRAID_OK;
}

static void adapt(lender *l, lend_job *task) {
    loan *one = task->loan;
    braid_error error = {0};
    braid_err err = check_kernels(l, &one->about, task, &error);
    if (err) refuse_job(task, TUNING_FULL, error.text);
    if (task->refused) return;
    tune_base_config config = config_of(l, one, task->share);
    err = tune_base_new(&config, &one->base, &error);
    if (err == BRAID_LIMIT && task->memory > task->share) {
        config.max_memory = task->memory;
        err = tune_base_new(&config, &one->base, &error);
    }
    if (err)
        refuse_job(task, err == BRAID_LIMIT || err == BRAID_MEMORY ? TUNING_FULL : TUNING_MALFORMED, error.text);
    else if (tune_base_parameters(one->base) != one->about.parameters)
        refuse_job(task, TUNING_MALFORMED, "the adapter has another number of parameters than its layers");
}

static void forward(const lender *l, lend_job *task) {
    loan *one = task->loan;
    const stage_shape shape = {.sequences = one->about.sequences, .tokens = one->about.tokens, .documents = true};
    (void)l;
    memcpy(one->documents, task->from, one->rows * sizeof *one->documents);
    one->keeps = task->asked.forward.keep;
    if (!stage_documents_valid(&shape, one->documents)) {
        refuse_job(task, TUNING_MALFORMED, "a document begins behind its token");
        return;
    }
    tune_base_forward(one->base, one->documents, (const float *)task->from + one->rows, one->parameters, task->to);
}

static void backward(const lender *l, lend_job *task) {
    loan *one = task->loan;
    float *gradient = task->to + one->rows * dim_of(l);
    if (!one->keeps) {
        refuse_job(task, TUNING_MALFORMED, "no microbatch is kept to go backward");
        return;
    }
    one->keeps = false;
    memset(gradient, 0, one->about.parameters * sizeof *gradient);
    tune_base_backward(one->base, one->documents, task->from, one->parameters, task->to, gradient);
}

typedef struct scrubbing {
    atomic_uint inside;
    unsigned threads;
    uint64_t until_ns;
} scrubbing;

// Overwrites the stack below, where products have their operands in the order of the kernel. Each
// thread waits for the others, so that each takes part.
__attribute__((noinline)) static void scrub_stack(void *context, size_t index) {
    char area[LEND_STACK_BYTES];
    scrubbing *s = context;
    (void)index;
    explicit_bzero(area, sizeof area);
    atomic_fetch_add(&s->inside, 1);
    while (atomic_load(&s->inside) < s->threads && clock_now_ns() < s->until_ns) sched_yield();
}

static void scrub_stacks(tensor_pool *pool) {
    scrubbing s = {.threads = tensor_pool_threads(pool), .until_ns = clock_now_ns() + LEND_SCRUB_NS};
    tensor_pool_run(pool, s.threads, scrub_stack, &s);
}

static void compute(uv_work_t *request) {
    lender *l = request->data;
    lend_job *task = l->now;
    if (task->asked.kind == TUNING_ADAPT)
        adapt(l, task);
    else if (task->asked.kind == TUNING_FORWARD)
        forward(l, task);
    else
        backward(l, task);
    if (l->pool) scrub_stacks(l->pool);
}

// --- the queue

static void start_next(lender *l);

static void job_free(lender *l, lend_job *task) {
    if (task->in) blobs_release(l->peer->blobs, task->in);
    if (task->out) blobs_release(l->peer->blobs, task->out);
    free(task);
}

static void end_job(lender *l, lend_job *task) {
    loan *one = task->loan;
    one->queued--;
    if (one->base) one->bytes = tune_base_bytes(one->base) + one->about.parameters * sizeof(float);
    if (!one->closing && task->refused) {
        send_refusal(l->peer, &one->client, task->asked.name, task->refuse.reason, task->refuse.text);
        one->closing = true;
    } else if (!one->closing) {
        answer(l, task);
    }
    bool adapted = task->asked.kind == TUNING_ADAPT && !one->closing;
    job_free(l, task);
    if (one->closing && one->queued == 0) loan_free(l, one);
    if (adapted) tell_changed(l);
}

static void computed(uv_work_t *request, int status) {
    lender *l = request->data;
    lend_job *task = l->now;
    (void)status;
    l->computing = false;
    l->now = NULL;
    if (l->closed) {
        task->loan->closing = true;
        task->loan->queued = 0;
        loan *one = task->loan;
        job_free(l, task);
        loan_free(l, one);
        return;
    }
    end_job(l, task);
    start_next(l);
}

// The memory that adapters may have: a part of the peer's, as far as weights and caches leave it.
static uint64_t memory_left(lender *l) {
    const span_peer *p = l->peer;
    uint64_t all = p->config.memory, most = all / LEND_MEMORY;
    uint64_t taken = span_model_bytes(p->config.file, p->layers.begin, p->layers.end) +
                     (p->layers.worker ? span_worker_cache_bytes(p->layers.worker) : 0);
    uint32_t adapters;
    uint64_t lent = used_bytes(l, &adapters), room = all > taken ? all - taken : 0;
    if (room < most) most = room;
    return most > lent ? most - lent : 0;
}

static void start_next(lender *l) {
    while (l->first && !l->computing) {
        lend_job *task = l->first;
        l->first = task->next;
        if (!l->first) l->last = &l->first;
        if (task->loan->closing) {
            end_job(l, task);
            continue;
        }
        task->memory = memory_left(l);
        task->share = l->peer->config.memory / LEND_MEMORY / LEND_SHARE;
        if (task->share > task->memory) task->share = task->memory;
        if (task->share == 0) task->share = task->memory = 1;  // 0 would mean no limit
        l->now = task;
        l->computing = true;
        l->request.data = l;
        uv_queue_work(&l->peer->loop, &l->request, compute, computed);
    }
}

// The memory of the answer: y, or dx and the gradient.
static bool place_answer(lender *l, lend_job *task) {
    const loan *one = task->loan;
    uint64_t floats = one->rows * dim_of(l);
    if (task->asked.kind == TUNING_ADAPT) return true;
    if (task->asked.kind == TUNING_BACKWARD) floats += one->about.parameters;
    task->to = blobs_add(l->peer->blobs, floats * sizeof(float), &task->out);
    if (task->to && task->asked.kind == TUNING_BACKWARD) blobs_hide(l->peer->blobs, task->out);
    return task->to != NULL;
}

static void add_job(lender *l, loan *one, const tuning_message *msg, const void *payload, blob_id blob) {
    lend_job *task = one->queued < LEND_QUEUE_MAX ? calloc(1, sizeof *task) : NULL;
    if (task) *task = (lend_job){.loan = one, .asked = *msg, .in = blob, .from = payload};
    if (!task || !place_answer(l, task)) {
        if (task)
            job_free(l, task);
        else if (blob)
            blobs_release(l->peer->blobs, blob);
        send_refusal(l->peer, &one->client, msg->name, TUNING_FULL, "no memory for a microbatch");
        loan_end(l, one);
        return;
    }
    one->queued++;
    *l->last = task;
    l->last = &task->next;
    start_next(l);
}

// --- messages

static const char *why_not(const span_peer *p, const tuning_adapt *a) {
    if (!p->layers.loaded || a->layer_begin < p->layers.begin || a->layer_end > p->layers.end)
        return "these layers are not here";
    return p->state.draining ? "this peer leaves" : NULL;
}

static lender *lender_of(span_peer *p) {
    if (p->layers.lender) return p->layers.lender;
    p->layers.lender = calloc(1, sizeof *p->layers.lender);
    if (p->layers.lender) {
        p->layers.lender->peer = p;
        p->layers.lender->last = &p->layers.lender->first;
    }
    return p->layers.lender;
}

uint64_t lend_payload(span_peer *p, const braid_id *from, const tuning_message *msg) {
    const loan *one = find(p->layers.lender, from, msg->name.session);
    uint64_t row = p->model.dim * sizeof(float);
    if (msg->kind == TUNING_ADAPT) {
        uint64_t bytes = msg->adapt.parameters * (uint64_t)sizeof(float);
        return why_not(p, &msg->adapt) || bytes > p->config.memory / LEND_MEMORY ? 0 : bytes;
    }
    if (!one) return 0;
    return one->rows * (msg->kind == TUNING_FORWARD ? row + sizeof *one->documents : row);
}

static loan *free_place(lender *l) {
    for (uint32_t i = 0; i < LEND_MAX; i++)
        if (!l->loan[i].used) return &l->loan[i];
    return NULL;
}

static void take_adapter(span_peer *p, const braid_id *from, const tuning_message *msg, const void *payload) {
    lender *l = lender_of(p);
    loan *one = l ? free_place(l) : NULL;
    const tuning_adapt *a = &msg->adapt;
    size_t rows = (size_t)a->sequences * a->tokens;
    if (find(l, from, msg->name.session)) return;  // its number was used twice
    const char *why = why_not(p, a);
    if (why) {
        send_refusal(p, from, msg->name, TUNING_NOT_HERE, why);
        return;
    }
    float *parameters = one && payload ? malloc(a->parameters * sizeof *parameters) : NULL;
    uint32_t *documents = parameters ? malloc(rows * sizeof *documents) : NULL;
    if (!documents) {
        free(parameters);
        send_refusal(p, from, msg->name, TUNING_FULL, "no memory for one more adapter");
        return;
    }
    memcpy(parameters, payload, a->parameters * sizeof *parameters);
    *one = (loan){.used = true,
                  .client = *from,
                  .name = msg->name,
                  .about = *a,
                  .rows = rows,
                  .parameters = parameters,
                  .documents = documents,
                  .bytes = a->parameters * sizeof *parameters};
    add_job(l, one, msg, NULL, 0);
}

void lend_receive(span_peer *p, const braid_id *from, const tuning_message *msg, const void *payload, blob_id blob) {
    loan *one = find(p->layers.lender, from, msg->name.session);
    if (msg->kind == TUNING_ADAPT) {
        take_adapter(p, from, msg, payload);
    } else if (msg->kind == TUNING_FORGET) {
        if (one) loan_end(p->layers.lender, one);
    } else if (!one || !payload) {
        send_refusal(p, from, msg->name, TUNING_NOT_HERE, "this adapter is not here");
        if (one) loan_end(p->layers.lender, one);
    } else {
        add_job(p->layers.lender, one, msg, payload, blob);
        return;
    }
    if (blob) blobs_release(p->blobs, blob);
}

void lend_link_down(span_peer *p, const braid_id *id) {
    lender *l = p->layers.lender;
    for (uint32_t i = 0; l && i < LEND_MAX; i++)
        if (l->loan[i].used && !l->loan[i].closing && id_equal(&l->loan[i].client, id)) loan_end(l, &l->loan[i]);
}

void lend_close(span_peer *p) {
    lender *l = p->layers.lender;
    if (!l) return;
    l->closed = true;
    while (l->first) {
        lend_job *task = l->first;
        l->first = task->next;
        task->loan->queued--;
        job_free(l, task);
    }
    l->last = &l->first;
    for (uint32_t i = 0; i < LEND_MAX; i++)
        if (l->loan[i].used && !(l->computing && l->now->loan == &l->loan[i])) loan_free(l, &l->loan[i]);
}

void lend_free(span_peer *p) {
    lender *l = p->layers.lender;
    if (!l) return;
    tensor_pool_free(l->pool);
    free(l);
}
