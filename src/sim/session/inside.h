#ifndef BRAID_SIM_SESSION_INSIDE_H
#define BRAID_SIM_SESSION_INSIDE_H

#include "base/rng.h"
#include "sim/queue.h"
#include "sim/session/session_sim.h"

enum {
    WORLD_NODES = 10,
    WORLD_SLOTS = 8,
    WORLD_OWN = 6,
    WORLD_LAYERS = 12,
    WORLD_TOKENS = 192,  // of a text, with drafts
    WORLD_TEXTS = 20,
    WORLD_BLOBS = 512,    // of a node
    WORLD_STEPS = 20000,  // of a node in one virtual second
    WORLD_PAGE = 4,       // tokens of a page of the prefix caches
    WORLD_PAGES = 96,     // in the prefix cache of a node
    WORLD_PREFIXES = 3,   // beginnings that many texts share
    WORLD_PREFIX = 40,    // tokens of each
};

#define WORLD_MS ((uint64_t)1000000)

// Rows or cached values: values[count] or values[layers][count].
typedef struct world_blob {
    uint32_t count;
    uint64_t *values;
} world_blob;

typedef struct world_slot {
    bool used, job;
    uint16_t begin, end;
    uint32_t length, kept_from, kept_to;
    uint64_t chain[WORLD_LAYERS][WORLD_TOKENS];
    uint64_t kept[WORLD_TOKENS];
} world_slot;

// A page of the prefix cache: layers [begin, end), one value for each layer and token.
typedef struct world_page {
    bool used;
    session_key key;
    uint16_t begin, end;
    uint64_t chain[WORLD_LAYERS][WORLD_PAGE];
} world_page;

typedef struct world_node {
    braid_id id;
    bool alive, leaving;
    bool gone;  // does not return
    session_span first_span;
    uint64_t life;
    uint64_t paused_until, slow_until;
    uint64_t tick_ns;        // of the TICK under way
    uint64_t second, steps;  // steps in this virtual second
    session_config config;
    session_peer *peer;
    uint32_t blobs;                // held
    world_blob blob[WORLD_BLOBS];  // number - 1
    world_slot slot[WORLD_SLOTS];
    world_page page[WORLD_PAGES];
} world_node;

typedef enum link_state { LINK_NONE, LINK_UP } link_state;

typedef struct world_link {  // a < b
    uint64_t generation;     // rises when it falls
    bool up[2];              // as the lower and the higher node were told
    bool whole;
    bool dialing[2];
    uint64_t latency_ns;
    uint64_t last_ns[2];  // arrival of the newest message, by direction
    uint64_t cut_until;   // no message passes
    bool holds;           // cut: messages are held rather than lost
} world_link;

typedef struct world_text {
    bool used, ended, lost;
    bool step_due, end_due;  // after the effects of this step
    bool waits;              // for BEGAN
    uint32_t named;          // pages
    uint32_t node;
    uint64_t life, number;
    uint32_t total;  // tokens when it is complete
    uint32_t drafts;
    uint64_t token[WORLD_TOKENS], row[WORLD_TOKENS];  // undisturbed: the text, and the last layer's rows
    bool given[WORLD_TOKENS];                         // token is the user's
    uint64_t fed[WORLD_TOKENS];                       // to the session, drafts among them
    uint32_t length;                                  // of `fed`
    uint32_t known;                                   // tokens of the text so far
    uint32_t output;                                  // next output
    uint64_t last_ns;
} world_text;

typedef enum item_kind {
    ITEM_TICK,
    ITEM_MESSAGE,
    ITEM_UP,
    ITEM_DOWN,
    ITEM_DIALED,
    ITEM_DONE,
    ITEM_START,
    ITEM_FAULT,
    ITEM_TEXT,
    ITEM_LEAVE,
    ITEM_WINDOW_DEATH,
} item_kind;

typedef struct world_item {
    item_kind kind;
    uint32_t node, from;
    uint64_t life, generation;
    bool refused;
    uint32_t slot;
    uint64_t ticket;
    session_effect job;                          // ITEM_DONE
    session_key key[WORLD_TOKENS / WORLD_PAGE];  // of an ADOPT
    size_t count;
    uint32_t rows, layers;
    uint8_t bytes[];  // message, then rows * layers values
} world_item;

typedef struct world {
    uint64_t seed, now, faults_ns, end_ns;
    rng random;
    sim_queue queue;
    FILE *trace;
    session_sim_result *result;
    uint32_t nodes, origins, texts;
    uint16_t layers;
    uint64_t row_ns, numbers, faults, fault_gap_ns;
    session_sim_mode mode;
    void *route_memory;  // of all nodes, one after the other
    bool origins_die, tight, healed;
    world_node node[WORLD_NODES];
    world_link link[WORLD_NODES][WORLD_NODES];
    uint64_t prefix[WORLD_PREFIXES][WORLD_PREFIX];
    world_text text[WORLD_TEXTS];
    session_message message;
} world;

void world_fail(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_trace(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
world_item *world_item_new(item_kind kind, uint32_t node, size_t bytes);
void world_put(world *w, uint64_t at_ns, world_item *item);
uint32_t world_node_of(const world *w, const braid_id *id);  // WORLD_NODES: none

// ---- model.c
uint64_t model_embed(uint64_t token);
uint64_t model_token(uint64_t row);
// One row through layers [begin, end); chain[layer][position] is written.
uint64_t model_row(uint64_t chain[WORLD_LAYERS][WORLD_TOKENS], uint16_t begin, uint16_t end, uint32_t position,
                   uint64_t x);

// ---- host.c
void host_start(world *w, uint32_t node);
void host_stop(world *w, uint32_t node);
void host_event(world *w, uint32_t node, const session_event *e);
void host_done(world *w, const world_item *item);
void host_message(world *w, const world_item *item);

// ---- pages.c
// The names of the whole pages of tokens[count]; their number.
uint32_t pages_keys(const uint64_t *tokens, uint32_t count, session_key *keys);
void pages_name(world *w, uint32_t node, const session_effect *e);
// The tokens of pages in the node's prefix cache with which the slot begins.
uint32_t pages_adopt(world *w, uint32_t node, const world_item *item);

// ---- links.c
world_link *link_of(world *w, uint32_t a, uint32_t b);
void link_send(world *w, uint32_t from, uint32_t to, const session_effect *e, const uint64_t *values, uint32_t rows,
               uint32_t layers);
void link_dial(world *w, uint32_t from, uint32_t to);
void link_dialed(world *w, const world_item *item);
void link_fall(world *w, uint32_t a, uint32_t b, bool refused_a, bool refused_b);
void link_told(world *w, const world_item *item);
void links_crash(world *w, uint32_t node);

// ---- texts.c
void text_begin(world *w);
void text_output(world *w, uint32_t node, const session_effect *e, const world_blob *blob);
uint64_t text_fed(const world *w, uint32_t node, uint64_t number, uint32_t position, bool *ok);
void texts_lose(world *w, uint32_t node);
void texts_go_on(world *w, uint32_t node);
void text_began(world *w, uint32_t node, uint64_t number);
void text_end(world *w, world_text *t);
world_text *text_of(world *w, uint32_t node, uint64_t number);

// ---- faults.c
void faults_plan(world *w);
void fault_next(world *w);
void faults_heal(world *w);
// In SESSION_SIM_WINDOWS: a span of the text's path may die before the outputs of its step arrive.
void fault_in_window(world *w, const world_text *t);
void fault_window_death(world *w, const world_item *item);

#endif
