// The layout of VIEW: each kind of gossip carries the fields that it uses, and nothing else.
#include "wire/codec.h"

enum {
    SIDE = 1 << 0,
    CHANCE = 1 << 1,
    COST = 1 << 2,
    CLOCK = 1 << 3,
    ECHO = 1 << 4,
    RATES = 1 << 5,
    CARDS = 1 << 6,
    OFFER = SIDE | CHANCE | COST,

    SIDES = 3,
    LINKED_BITS = 1 << 2,  // before and behind
    SURE = 1000,
    MAX_AGE = 256,
    END_OF_MEMBERS = INT32_MAX,
};

typedef struct layout {
    uint8_t fields;
    const char *name;
} layout;

static const layout layouts[GOSSIP_KINDS] = {
    [GOSSIP_SAMPLE] = {CLOCK | RATES | CARDS, "sample"},
    [GOSSIP_REPLY] = {OFFER | ECHO | RATES | CARDS, "reply"},
    [GOSSIP_PING] = {SIDE | CLOCK | RATES, "ping"},
    [GOSSIP_PONG] = {OFFER | ECHO | RATES, "pong"},
    [GOSSIP_ASK] = {OFFER, "ask"},
    [GOSSIP_YES] = {OFFER, "yes"},
    [GOSSIP_NO] = {OFFER, "no"},
    [GOSSIP_PART] = {SIDE, "part"},
    [GOSSIP_CUT] = {SIDE, "cut"},
};

static void code_axis(codec *c, int32_t *value, int32_t least) {
    uint32_t bits = (uint32_t)*value;
    codec_u32(c, &bits);
    if (codec_reads(c)) *value = (int32_t)bits;
    codec_require(c, *value >= least && *value <= (int32_t)WIRE_MAX_LINK_COST);
}

static void code_place(codec *c, message_place *place) {
    for (uint32_t i = 0; i < WIRE_VIEW_AXES; i++) code_axis(c, &place->at[i], -(int32_t)WIRE_MAX_LINK_COST);
    code_axis(c, &place->height, 0);
    codec_u16_below(c, &place->error, SURE + 1);
}

static void code_card(codec *c, message_card *card) {
    codec_u32(c, &card->member);
    codec_require(c, card->member >= 1 && card->member <= END_OF_MEMBERS);
    codec_u16_below(c, &card->age, MAX_AGE + 1);
    code_place(c, &card->place);
}

// Fields that the kind does not encode must be zero, else their values would be lost silently.
static void require_no_other_field(codec *c, const message_view *v, uint8_t fields) {
    const bool other[] = {v->side != 0,     v->by_chance, v->cost != 0,
                          v->clock_us != 0, v->echo_us != 0, v->rate_out != 0 || v->rate_in != 0 || v->rate_here != 0,
                          v->cards != 0};
    for (uint32_t i = 0; i < sizeof other / sizeof *other; i++) codec_require(c, !other[i] || (fields & 1u << i));
}

void codec_view(codec *c, message_view *view) {
    codec_u8_below(c, &view->kind, GOSSIP_KINDS);
    codec_u8_below(c, &view->linked, LINKED_BITS);
    code_place(c, &view->place);
    if (c->failed) return;
    uint8_t fields = layouts[view->kind].fields;
    if (!codec_reads(c)) require_no_other_field(c, view, fields);
    if (fields & SIDE) codec_u8_below(c, &view->side, SIDES);
    if (fields & CHANCE) codec_bool(c, &view->by_chance);
    if (fields & COST) {
        codec_u32(c, &view->cost);
        codec_require(c, view->cost <= WIRE_MAX_LINK_COST);
    }
    if (fields & CLOCK) codec_u32(c, &view->clock_us);
    if (fields & ECHO) codec_u32(c, &view->echo_us);
    if (fields & RATES) {
        codec_u32(c, &view->rate_out);
        codec_u32(c, &view->rate_in);
        codec_u32(c, &view->rate_here);
    }
    uint32_t cards = fields & CARDS ? codec_count16(c, &view->cards, WIRE_MAX_VIEW_CARDS) : 0;
    for (uint32_t i = 0; i < cards; i++) code_card(c, &view->card[i]);
}

const char *gossip_kind_name(uint8_t kind) { return kind < GOSSIP_KINDS ? layouts[kind].name : "unknown"; }
