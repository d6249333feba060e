#include "serve/adapters.h"

#include "base/sha256.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct adapter_version {
    atomic_uint references;  // the set's and those of texts
    engine_adapter *weights;
    executor_adapter session;
    uint64_t scratch;  // memory of a call
};

struct adapter_set {
    const engine *engine;
    const model_file *model;
    const adapter_place *places;
    uint32_t count;
    pthread_mutex_t lock;
    adapter_version **version;  // [count], under lock
};

void adapter_version_give_back(adapter_version *v) {
    if (!v || atomic_fetch_sub(&v->references, 1) > 1) return;
    engine_adapter_free(v->weights);
    free(v);
}

const executor_adapter *adapter_version_of(const adapter_version *v) { return v ? &v->session : NULL; }

// Equal adapters have equal keys, so their texts share prefixes across a reload.
static braid_hash key_of(const peft_adapter *p) {
    sha256 s;
    sha256_init(&s);
    for (uint32_t i = 0; i < p->count; i++) {
        const peft_matrix *m = &p->matrix[i];
        sha256_update(&s, m->name, strlen(m->name) + 1);
        sha256_update(&s, &m->scale, sizeof m->scale);
        sha256_update(&s, m->a, (size_t)m->rank * m->in * sizeof *m->a);
        sha256_update(&s, m->b, (size_t)m->rank * m->out * sizeof *m->b);
    }
    return sha256_final(&s);
}

static braid_err read_version(const adapter_set *s, const char *directory, adapter_version **out, braid_error *error) {
    peft_adapter *p = NULL;
    adapter_version *v = calloc(1, sizeof *v);
    if (!v) return braid_fail(error, BRAID_MEMORY, "no memory for the adapter %.200s", directory);
    braid_err err = peft_open(directory, s->model, &p, error);
    if (!err) err = engine_adapter_new(s->engine, p, &v->weights, error);
    if (!err) {
        atomic_init(&v->references, 1);
        v->session = (executor_adapter){v->weights, key_of(p)};
        v->scratch = (uint64_t)ENGINE_CHUNK_ROWS * p->rank * sizeof(float);
        *out = v;
    }
    peft_close(p);
    if (err) free(v);
    return err;
}

static void give_back_all(const adapter_set *s, adapter_version **version) {
    for (uint32_t i = 0; version && i < s->count; i++) adapter_version_give_back(version[i]);
    free(version);
}

braid_err adapter_set_reload(adapter_set *s, braid_error *error) {
    adapter_version **fresh = calloc(s->count, sizeof *fresh), **former;
    braid_err err = fresh ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the list of adapters");
    for (uint32_t i = 0; i < s->count && !err; i++) err = read_version(s, s->places[i].directory, &fresh[i], error);
    if (err) {
        give_back_all(s, fresh);
        return err;
    }
    pthread_mutex_lock(&s->lock);
    former = s->version;
    s->version = fresh;
    pthread_mutex_unlock(&s->lock);
    give_back_all(s, former);
    return BRAID_OK;
}

static braid_err check_names(const char *model_name, const adapter_place *places, uint32_t count, braid_error *error) {
    if (count > ADAPTERS_MOST)
        return braid_fail(error, BRAID_CONFIG, "%u adapters are too many: give at most %d", count, ADAPTERS_MOST);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = places[i].name;
        if (!*name) return braid_fail(error, BRAID_CONFIG, "an adapter has an empty name: give NAME=DIRECTORY");
        if (strcmp(name, model_name) == 0)
            return braid_fail(error, BRAID_CONFIG, "the adapter '%.64s' has the model's name; give it another one",
                              name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(name, places[j].name) == 0)
                return braid_fail(error, BRAID_CONFIG, "two adapters have the name '%.64s'; give one of them another",
                                  name);
    }
    return BRAID_OK;
}

braid_err adapter_set_new(const engine *e, const model_file *model, const char *model_name, const adapter_place *places,
                          uint32_t count, adapter_set **out, braid_error *error) {
    *out = NULL;
    braid_err err = check_names(model_name, places, count, error);
    if (err) return err;
    adapter_set *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for the adapters");
    s->engine = e;
    s->model = model;
    s->places = places;
    s->count = count;
    pthread_mutex_init(&s->lock, NULL);
    err = adapter_set_reload(s, error);
    if (err)
        adapter_set_free(s);
    else
        *out = s;
    return err;
}

void adapter_set_free(adapter_set *s) {
    if (!s) return;
    give_back_all(s, s->version);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

uint32_t adapter_set_count(const adapter_set *s) { return s ? s->count : 0; }

const char *adapter_set_name(const adapter_set *s, uint32_t i) { return s->places[i].name; }

uint64_t adapter_set_bytes(adapter_set *s) {
    uint64_t sum = 0, scratch = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->count; i++) {
        const adapter_version *v = s->version[i];
        sum += engine_adapter_bytes(v->weights);
        if (v->scratch > scratch) scratch = v->scratch;
    }
    pthread_mutex_unlock(&s->lock);
    return sum + scratch;
}

adapter_version *adapter_set_take(adapter_set *s, const char *name) {
    adapter_version *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->count && !found; i++)
        if (strcmp(s->places[i].name, name) == 0) found = s->version[i];
    if (found) atomic_fetch_add(&found->references, 1);
    pthread_mutex_unlock(&s->lock);
    return found;
}
