#include "train/packed.h"

#include "base/sha256.h"
#include "train/permutation.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_HELD_OUT = 0x686f,  // the choice of held-out documents
    KEY_DOCUMENTS = 0x646f,
    KEY_SEQUENCES = 0x7365,
    KEY_OFFSET = 0x6f66,
    KEY_ROUND = 0x726f,
    // A share of fewer documents than this is too coarse, and the ends of all are held out instead.
    LEAST_HELD_OUT = 2,
    NO_EPOCH = -1,
};

// A part of a source's documents: those to train on, or the held-out ones.
typedef struct part {
    uint64_t first, documents;  // positions in the permutation of all
    uint64_t tokens;
    uint64_t sequences;  // per epoch
} part;

// The order of a part in one epoch. offset[i]: stream position of the (i * PACKED_STRIDE)-th
// document.
typedef struct epoch_order {
    int64_t number;  // NO_EPOCH: none
    uint64_t seed;
    permutation order;
    uint64_t *offset, phase;
} epoch_order;

typedef struct source {
    train_tokens tokens;
    permutation chosen;
    bool by_end;   // the end of each document is held out
    part part[2];  // trained, held out
    epoch_order epoch[2];
    uint32_t quota, before;  // sequences of a round: its own, and of the sources before it
} source;

struct packed_data {
    packed_settings settings;
    uint32_t count;
    const source *failed;  // could not be read
    source source[];
};

enum { TRAINED, HELD_OUT };

// ---- documents ----

typedef struct range {
    uint64_t begin, count;
} range;

static uint64_t held_tokens(const packed_data *p, uint64_t tokens) {
    return (uint64_t)((double)tokens * p->settings.holdout);
}

// The tokens of a document that belong to the part.
static range document_range(const packed_data *p, const source *s, int which, uint64_t document) {
    uint64_t begin = document > 0 ? s->tokens.ends[document - 1] : 0, count = s->tokens.ends[document] - begin;
    uint64_t held = s->by_end ? held_tokens(p, count) : 0;
    if (!s->by_end || which == TRAINED) return (range){begin, count - held};
    return (range){begin + count - held, held};
}

static uint64_t document_at(const source *s, int which, const permutation *order, uint64_t position) {
    return permutation_at(&s->chosen, s->part[which].first + permutation_at(order, position));
}

static void set_part(const packed_data *p, source *s, int which, part about) {
    uint64_t length = p->settings.tokens;
    if (about.tokens > length) about.sequences = about.tokens / length > 2 ? about.tokens / length - 1 : 1;
    s->part[which] = about;
}

// The last tokens of every document are held out.
static void divide_by_end(const packed_data *p, source *s) {
    uint64_t trained = 0, documents = s->tokens.documents;
    s->by_end = true;
    for (uint64_t i = 0; i < documents; i++) trained += document_range(p, s, TRAINED, i).count;
    set_part(p, s, TRAINED, (part){.documents = documents, .tokens = trained});
    set_part(p, s, HELD_OUT, (part){.documents = documents, .tokens = s->tokens.tokens - trained});
}

// Documents are held out until they have the share of the tokens. Few or very unequal documents
// would miss it by far.
static void divide_by_documents(const packed_data *p, source *s) {
    uint64_t wanted = held_tokens(p, s->tokens.tokens), have = 0, held = 0, documents = s->tokens.documents;
    while (have < wanted && held < documents)
        have += document_range(p, s, TRAINED, permutation_at(&s->chosen, held++)).count;
    if (p->settings.holdout > 0 && (held < LEAST_HELD_OUT || have > 2 * wanted)) {
        divide_by_end(p, s);
        return;
    }
    set_part(p, s, HELD_OUT, (part){.documents = held, .tokens = have});
    set_part(p, s, TRAINED, (part){.first = held, .documents = documents - held, .tokens = s->tokens.tokens - have});
}

static braid_err too_short(const packed_data *p, const source *s, const char *what, uint64_t tokens, const char *mend,
                           braid_error *error) {
    return braid_fail(error, BRAID_CONFIG, "the %s of '%s' is too short: %llu tokens, one sequence needs %llu; %s",
                      what, s->tokens.name, (unsigned long long)tokens, (unsigned long long)p->settings.tokens + 1,
                      mend);
}

static braid_err divide_source(const packed_data *p, source *s, braid_error *error) {
    s->chosen = permutation_of(s->tokens.documents, KEY_HELD_OUT);
    divide_by_documents(p, s);
    if (s->part[TRAINED].sequences == 0)
        return too_short(p, s, "text", s->part[TRAINED].tokens, "add text or lower train.tokens", error);
    if (p->settings.holdout > 0 && s->part[HELD_OUT].sequences == 0)
        return too_short(p, s, "held-out text", s->part[HELD_OUT].tokens, "add text, raise data.holdout or set it to 0",
                         error);
    return BRAID_OK;
}

// ---- shares of the sources ----

// The largest remainders get the sequences that are left; every source gets at least one.
static void share_out(packed_data *p) {
    double sum = 0, rest[PACKED_MAX_SOURCES];
    uint32_t given = 0;
    for (uint32_t i = 0; i < p->count; i++) sum += p->source[i].tokens.weight;
    for (uint32_t i = 0; i < p->count; i++) {
        double exact = p->source[i].tokens.weight / sum * PACKED_ROUND;
        p->source[i].quota = exact < 1 ? 1 : (uint32_t)exact;
        rest[i] = exact - (double)p->source[i].quota;
        given += p->source[i].quota;
    }
    while (given != PACKED_ROUND) {
        uint32_t best = 0;
        bool more = given < PACKED_ROUND;
        for (uint32_t i = 1; i < p->count; i++)
            if (more ? rest[i] > rest[best] : p->source[i].quota > p->source[best].quota) best = i;
        p->source[best].quota += more ? 1 : UINT32_MAX;
        rest[best] -= more ? 1 : 0;
        given += more ? 1 : UINT32_MAX;
    }
    for (uint32_t i = 1; i < p->count; i++) p->source[i].before = p->source[i - 1].before + p->source[i - 1].quota;
}

// The source of a sequence, and the sequence's number within it.
static source *choose_source(packed_data *p, uint64_t seed, uint64_t *number) {
    if (p->count == 1) return &p->source[0];
    uint64_t round = *number / PACKED_ROUND;
    permutation order = permutation_of(PACKED_ROUND, rng_seed(rng_seed(seed, KEY_ROUND), round));
    uint64_t place = permutation_at(&order, *number % PACKED_ROUND);
    source *s = &p->source[p->count - 1];
    while (place < s->before) s--;
    *number = round * s->quota + (place - s->before);
    return s;
}

// ---- epochs ----

static uint64_t part_key(uint64_t seed, int which, uint64_t epoch, uint64_t purpose) {
    return rng_seed(rng_seed(rng_seed(seed, purpose), (uint64_t)which), epoch);
}

static void fill_order(const packed_data *p, source *s, int which, uint64_t seed, uint64_t epoch) {
    epoch_order *e = &s->epoch[which];
    const part *q = &s->part[which];
    e->order = permutation_of(q->documents, part_key(seed, which, epoch, KEY_DOCUMENTS));
    uint64_t at = 0;
    for (uint64_t i = 0; i < q->documents; i++) {
        if (i % PACKED_STRIDE == 0) e->offset[i / PACKED_STRIDE] = at;
        at += document_range(p, s, which, document_at(s, which, &e->order, i)).count;
    }
    // the tokens that no sequence of the epoch reads are at both ends of the stream
    rng r = {part_key(seed, which, epoch, KEY_OFFSET)};
    e->phase = rng_below(&r, q->tokens - q->sequences * p->settings.tokens);
    e->number = (int64_t)epoch;
    e->seed = seed;
}

static braid_err reserve(source *s, braid_error *error) {
    for (int which = 0; which < 2; which++) {
        s->epoch[which].number = NO_EPOCH;
        s->epoch[which].offset = calloc((size_t)(s->part[which].documents / PACKED_STRIDE) + 1, sizeof(uint64_t));
        if (!s->epoch[which].offset)
            return braid_fail(error, BRAID_MEMORY, "no memory for the order of %llu documents",
                              (unsigned long long)s->part[which].documents);
    }
    return BRAID_OK;
}

// ---- sequences ----

// The document (as a position in the epoch's order) that has stream position `at`, and where that
// document begins.
static uint64_t find_document(const packed_data *p, const source *s, int which, uint64_t at, uint64_t *begin) {
    const epoch_order *e = &s->epoch[which];
    uint64_t low = 0, high = (s->part[which].documents - 1) / PACKED_STRIDE + 1;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (e->offset[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    uint64_t position = low * PACKED_STRIDE;
    for (*begin = e->offset[low];; position++) {
        uint64_t count = document_range(p, s, which, document_at(s, which, &e->order, position)).count;
        if (at < *begin + count) return position;
        *begin += count;
    }
}

// A sequence that is being written.
typedef struct writing {
    int32_t *inputs, *targets;
    uint32_t *first;
    uint32_t have, length;  // tokens read; the target of the last is one more
} writing;

// Puts tokens of one document. `join`: position where the document begins in the sequence.
static void put_tokens(const packed_data *p, writing *w, const int32_t *ids, uint32_t count, uint32_t join,
                       bool begins) {
    for (uint32_t i = 0; i < count; i++, w->have++) {
        if (w->have > 0) w->targets[w->have - 1] = p->settings.masks_next && begins && i == 0 ? -1 : ids[i];
        if (w->have == w->length) continue;
        w->inputs[w->have] = ids[i];
        if (w->first) w->first[w->have] = join;
    }
}

static bool read_range(packed_data *p, source *s, writing *w, range r, bool begins) {
    enum { CHUNK = 1024 };
    int32_t ids[CHUNK];
    uint32_t join = w->have;
    while (r.count > 0 && w->have <= w->length) {
        uint64_t left = w->length + 1 - w->have;
        uint32_t count = CHUNK;
        if (left < count) count = (uint32_t)left;
        if (r.count < count) count = (uint32_t)r.count;
        if (!s->tokens.read(s->tokens.context, r.begin, count, ids)) {
            p->failed = s;
            return false;
        }
        put_tokens(p, w, ids, count, join, begins);
        begins = false;
        r.begin += count;
        r.count -= count;
    }
    return true;
}

static bool draw(packed_data *p, source *s, int which, uint64_t seed, uint64_t number, writing *w) {
    const part *q = &s->part[which];
    epoch_order *e = &s->epoch[which];
    uint64_t epoch = number / q->sequences, begin;
    if (e->number != (int64_t)epoch || e->seed != seed) fill_order(p, s, which, seed, epoch);
    permutation sequences = permutation_of(q->sequences, part_key(seed, which, epoch, KEY_SEQUENCES));
    uint64_t at = e->phase + permutation_at(&sequences, number % q->sequences) * p->settings.tokens;
    uint64_t position = find_document(p, s, which, at, &begin);
    for (uint64_t skip = at - begin; w->have <= w->length; skip = 0, position++) {
        range r = document_range(p, s, which, document_at(s, which, &e->order, position));
        if (!read_range(p, s, w, (range){r.begin + skip, r.count - skip}, skip == 0)) return false;
    }
    return true;
}

bool packed_sequence(packed_data *p, uint64_t seed, uint64_t number, int32_t *inputs, int32_t *targets,
                     uint32_t *first) {
    writing w = {.inputs = inputs, .targets = targets, .first = first, .length = p->settings.tokens};
    source *s = choose_source(p, seed, &number);
    return draw(p, s, TRAINED, seed, number, &w);
}

bool packed_held_out(packed_data *p, uint64_t seed, uint64_t number, int32_t *inputs, int32_t *targets,
                     uint32_t *first) {
    writing w = {.inputs = inputs, .targets = targets, .first = first, .length = p->settings.tokens};
    source *s = choose_source(p, rng_seed(seed, KEY_HELD_OUT), &number);
    // every evaluation has the sequences of the first epoch
    return draw(p, s, HELD_OUT, seed, number % s->part[HELD_OUT].sequences, &w);
}

bool packed_failed(const packed_data *p) { return p->failed != NULL; }

void packed_why(const packed_data *p, braid_error *error) {
    if (p->failed) p->failed->tokens.why(p->failed->tokens.context, error);
}

// ---- opening ----

static braid_err check_source(const packed_data *p, const source *s, braid_error *error) {
    if (s->tokens.limit <= p->settings.vocabulary) return BRAID_OK;
    return braid_fail(
        error, BRAID_CONFIG,
        "'%s' has the token %u and model.vocab is %u; raise model.vocab, or set data.tokenizer to the model's own",
        s->tokens.name, s->tokens.limit - 1, p->settings.vocabulary);
}

braid_err packed_open(train_tokens *sources, uint32_t count, const packed_settings *settings, packed_data **out,
                      braid_error *error) {
    BRAID_ASSERT(count > 0 && count <= PACKED_MAX_SOURCES);
    packed_data *p = calloc(1, sizeof *p + count * sizeof p->source[0]);
    if (!p) {
        for (uint32_t i = 0; i < count; i++) sources[i].free(sources[i].context);
        return braid_fail(error, BRAID_MEMORY, "no memory for the sources");
    }
    p->settings = *settings;
    p->count = count;
    for (uint32_t i = 0; i < count; i++) p->source[i].tokens = sources[i];
    share_out(p);
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < count && !err; i++) {
        err = check_source(p, &p->source[i], error);
        if (!err) err = divide_source(p, &p->source[i], error);
        if (!err) err = reserve(&p->source[i], error);
    }
    if (err)
        packed_free(p);
    else
        *out = p;
    return err;
}

void packed_free(packed_data *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->count; i++) {
        source *s = &p->source[i];
        for (int which = 0; which < 2; which++) free(s->epoch[which].offset);
        s->tokens.free(s->tokens.context);
    }
    free(p);
}

bool packed_has_held_out(const packed_data *p) { return p->settings.holdout > 0; }

uint64_t packed_tokens(const packed_data *p) {
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < p->count; i++) tokens += p->source[i].tokens.tokens;
    return tokens;
}

braid_hash packed_hash(const packed_data *p) {
    sha256 s;
    sha256_init(&s);
    for (uint32_t i = 0; i < p->count; i++) {
        const source *one = &p->source[i];
        sha256_update(&s, &one->tokens.hash, sizeof one->tokens.hash);
        sha256_update(&s, &one->quota, sizeof one->quota);
    }
    return sha256_final(&s);
}

uint32_t packed_sources(const packed_data *p) { return p->count; }
const train_tokens *packed_source(const packed_data *p, uint32_t i) { return &p->source[i].tokens; }
double packed_share(const packed_data *p, uint32_t i) { return (double)p->source[i].quota / PACKED_ROUND; }
