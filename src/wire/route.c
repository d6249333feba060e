// The layout of ROUTE: each part carries the fields that its kind uses, and nothing else.
#include "wire/codec.h"

enum {
    SIDE = 1 << 0,
    WHY = 1 << 1,
    POSITION = 1 << 2,
    SOURCE = 1 << 3,
    COST = 1 << 4,
    UNITS = 1 << 5,
    TAKEN_BACK = 1 << 6,
    TOKEN = 1 << 7,
    MOVED = 1 << 8,
    SCALE = 1 << 9,
    TURN = 1 << 10,
    EPOCH = 1 << 11,  // its number, plan and attempts
    ON_PATH = 1 << 12,
    CHANGE = WHY | POSITION | SOURCE | COST | UNITS | TURN | TOKEN,

    SIDES = 3,
    MAX_POSITION = 4096,
    STEP_WORDS = 3,
    LABEL_WORDS = 40 * STEP_WORDS,
    CYCLE_WORDS = 44,
    WAY_WORDS = 63,
    OTHER_WORDS = 160,
};

typedef struct layout {
    uint16_t fields;
    uint8_t most_words;
    const char *name;
} layout;

static const layout layouts[ROUTE_KINDS] = {
    [ROUTE_LABEL] = {SIDE | SOURCE | COST, LABEL_WORDS, "label"},
    [ROUTE_ADVERT] = {SOURCE | COST | UNITS, 0, "advert"},
    [ROUTE_FLOW] = {WHY | SOURCE | UNITS | TAKEN_BACK, 0, "flow"},
    [ROUTE_FLOW_OF_TOKEN] = {WHY | POSITION | SOURCE | UNITS | TAKEN_BACK | TOKEN, 0, "flow of a token"},
    [ROUTE_ADVERT_OF_LOADS] = {SOURCE | COST | UNITS | SCALE, 0, "advert of loads"},
    [ROUTE_FLOW_OF_BID] = {WHY | SOURCE | COST | UNITS | TAKEN_BACK, 0, "flow with a bid"},
    [ROUTE_DENY] = {SOURCE | UNITS, 0, "deny"},
    [ROUTE_LOCK] = {POSITION | SOURCE | COST | UNITS | TOKEN, CYCLE_WORDS, "lock"},
    [ROUTE_COMMIT] = {WHY | POSITION | SOURCE | UNITS | TAKEN_BACK | TOKEN | MOVED, 0, "commit"},
    [ROUTE_ABORT] = {WHY | POSITION | TOKEN, 0, "abort"},
    [ROUTE_WAY] = {ON_PATH | SOURCE | UNITS | TAKEN_BACK, WAY_WORDS, "way"},
    [ROUTE_MAP] = {0, OTHER_WORDS, "map"},
    [ROUTE_OFFER] = {CHANGE, OTHER_WORDS, "offer"},
    [ROUTE_REQUEST] = {CHANGE, OTHER_WORDS, "request"},
    [ROUTE_ANSWER] = {CHANGE, OTHER_WORDS, "answer"},
    [ROUTE_QUERY] = {WHY | POSITION | SOURCE | EPOCH | TOKEN, OTHER_WORDS, "query"},
    [ROUTE_UNITS] = {CHANGE, OTHER_WORDS, "units"},
    [ROUTE_RELINK] = {CHANGE, OTHER_WORDS, "relink"},
    [ROUTE_HOME] = {SOURCE | COST, 0, "home"},
};

static void below(codec *c, uint32_t *value, uint32_t end) {
    codec_u32(c, value);
    codec_require(c, *value < end);
}

static void code_cost(codec *c, int64_t *cost) {
    uint64_t bits = (uint64_t)*cost;
    codec_u64(c, &bits);
    if (codec_reads(c)) *cost = (int64_t)bits;
    codec_require(c, *cost >= -WIRE_MAX_ROUTE_COST && *cost <= WIRE_MAX_ROUTE_COST);
}

static void code_fields(codec *c, route_part *p, uint16_t fields) {
    if (fields & SIDE) codec_u8_below(c, &p->side, SIDES);
    if (fields & WHY) codec_u8(c, &p->why);
    if (fields & POSITION) codec_u16_below(c, &p->token.position, MAX_POSITION);
    if (fields & ON_PATH) codec_u16_below(c, &p->on_path, MAX_POSITION);
    if (fields & SOURCE) below(c, &p->source, 1u << 31);
    if (fields & COST) code_cost(c, &p->cost);
    if (fields & UNITS) below(c, &p->units, WIRE_MAX_ROUTE_UNITS + 1);
    if (fields & TAKEN_BACK) below(c, &p->taken_back, 1u << 31);
    if (fields & SCALE) below(c, &p->scale, 1u << 31);
    if (fields & TURN) codec_u32(c, &p->turn);
    if (fields & EPOCH) {
        codec_u64(c, &p->epoch.number);
        codec_require(c, p->epoch.number <= (uint64_t)WIRE_MAX_ROUTE_COST);
        below(c, &p->epoch.attempts, WIRE_MAX_ROUTE_UNITS + 1);
        codec_u32(c, &p->epoch.plan);
    }
    if (fields & TOKEN) {
        below(c, &p->token.origin, 1u << 31);
        codec_u32(c, &p->token.serial);
    }
    if (fields & MOVED) below(c, &p->moved, WIRE_MAX_ROUTE_UNITS + 1);
}

// Fields that the kind does not encode must be zero, else their values would be lost silently.
static void require_no_other_field(codec *c, const route_part *p, const layout *l) {
    const bool other[] = {p->side != 0,           p->why != 0,
                          p->token.position != 0, p->source != 0,
                          p->cost != 0,           p->units != 0,
                          p->taken_back != 0,     p->token.origin != 0 || p->token.serial != 0,
                          p->moved != 0,          p->scale != 0,
                          p->turn != 0,           p->epoch.number != 0 || p->epoch.plan != 0 || p->epoch.attempts != 0,
                          p->on_path != 0};
    for (uint32_t i = 0; i < sizeof other / sizeof *other; i++) codec_require(c, !other[i] || (l->fields & 1u << i));
    codec_require(c, p->words == 0 || l->most_words > 0);
}

// The steps of a label: each is a split node and a cost within bounds.
static void require_steps(codec *c, const uint32_t *word, uint32_t words) {
    codec_require(c, words % STEP_WORDS == 0);
    for (uint32_t i = 0; i + STEP_WORDS <= words; i += STEP_WORDS) {
        int64_t cost = (int64_t)((uint64_t)word[i + 2] << 32 | word[i + 1]);
        codec_require(c, cost >= -WIRE_MAX_ROUTE_COST && cost <= WIRE_MAX_ROUTE_COST);
    }
}

static uint32_t code_part(codec *c, route_part *p, uint32_t *word, uint32_t room) {
    codec_u8_below(c, &p->kind, ROUTE_KINDS);
    if (c->failed) return 0;
    const layout *l = &layouts[p->kind];
    if (!codec_reads(c)) require_no_other_field(c, p, l);
    code_fields(c, p, l->fields);
    if (l->most_words == 0) return 0;
    uint32_t words = codec_count16(c, &p->words, l->most_words);
    codec_require(c, words <= room);
    if (c->failed) return 0;
    for (uint32_t i = 0; i < words; i++) codec_u32(c, &word[i]);
    if (p->kind == ROUTE_LABEL && !c->failed) require_steps(c, word, words);
    return words;
}

void codec_route(codec *c, message_route *route) {
    codec_u32(c, &route->session);
    codec_u32(c, &route->heard);
    codec_u32(c, &route->sequence);
    codec_u64(c, &route->epoch);
    below(c, &route->cost, WIRE_MAX_LINK_COST + 1);
    codec_u32(c, &route->sent_us);
    codec_u32(c, &route->echo_us);
    codec_u32(c, &route->held_us);
    uint32_t parts = codec_count16(c, &route->parts, WIRE_MAX_ROUTE_PARTS), used = 0;
    for (uint32_t i = 0; i < parts && !c->failed; i++)
        used += code_part(c, &route->part[i], route->word + used, WIRE_MAX_ROUTE_WORDS - used);
}

bool route_part_good(const route_part *part, const uint32_t *word) {
    enum { MOST_BYTES = 64 + 4 * OTHER_WORDS };
    uint8_t bytes[MOST_BYTES];
    codec c = codec_writer(bytes, sizeof bytes);
    code_part(&c, (route_part *)part, (uint32_t *)word, WIRE_MAX_ROUTE_WORDS);  // writing assigns neither
    return codec_written(&c) > 0;
}

uint32_t route_words_before(const message_route *route, uint32_t part) {
    uint32_t words = 0;
    for (uint32_t i = 0; i < part; i++) words += route->part[i].words;
    return words;
}

const char *route_kind_name(uint8_t kind) { return kind < ROUTE_KINDS ? layouts[kind].name : "unknown"; }
