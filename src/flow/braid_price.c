// braid's prices: how the units of several data peers share a relay.
//
// Cancelling one data peer's cycles at a time sticks where two units of different data peers would have to change places.
// So a relay that several data peers use may be *booked* above its capacity (it still carries no more), at a price: its
// inner arc costs `price` a unit, and `push` more for each unit above capacity. Tokens lower the sum of costs and prices
// under live bookings; between them a relay that stays overbooked raises its price, one that has room and a price lowers
// it, by steps that shrink when it turns round. At rest nobody is overbooked, and who has room is (almost) free: then
// prices, as a linear program's duals, show that the flow is (almost) the cheapest. An augmented Lagrangian method, in
// which each relay adjusts the multiplier of its own constraint from what it sees itself.
#include "flow/braid.h"

enum {
    OVERBOOK = 8,  // units above capacity that may be booked
    // Delays that a relay stays overbooked before its price rises, or has room before its price falls: long enough that
    // labels and tokens have answered the last change. Shorter ones make prices overshoot: 12 and 16 never came to rest.
    RAISE = 60,
    EASE = 80,
    // Per cent of a link's mean cost, as the relay sees its own links: what a unit above capacity costs beside the price, what is
    // added to that whenever the price rises after the first times, the first step of a price, and the smallest
    PUSH = 12,
    PUSH_GROWS = 3,
    RISES_FREE = 4,
    STEP = 6,
    SMALLEST = 4,
    SHRINK = 35,  // per cent of a step that remain when the price turns round
    FLIPS = 6,    // a price that turned round so often falls no more until links or costs change
    HIGHEST = 3   // links' mean costs, of a price when these fall
};

bool braid_priced(const braid *b) { return b->shared && !b->r.is_source; }

int64_t braid_mean_cost(const braid *b) {
    int64_t sum = 0, links = 0;
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&b->r, side, s) {
            sum += link_cost(b, (router_side)side, s);
            links++;
        }
    }
    return links == 0 || sum < links ? 1 : sum / links;
}

int64_t braid_grain(const braid *b) { return 1 + b->mean * PUSH / 100; }

static int64_t most64(int64_t a, int64_t b) { return a > b ? a : b; }

int32_t braid_bookable(const braid *b) { return braid_room(b) + (braid_priced(b) ? OVERBOOK : 0); }

// A low one lets units try many places, a high one sends them off; whoever is still overbooked after many rises needs that.
static int64_t push(const braid *b) {
    int64_t rises = b->rises > RISES_FREE ? b->rises - RISES_FREE : 0;
    return 1 + b->mean * (PUSH + PUSH_GROWS * rises) / 100;
}

// The share of `load` units' price that the last of them makes.
static int64_t price_of_last(const braid *b, int32_t load) {
    int64_t over = most(0, load - (int32_t)b->r.config.capacity);
    return b->price + over * push(b);
}

int64_t braid_one_more(const braid *b, int32_t reserved) {
    if (braid_bookable(b) < 1) return BRAID_NOWHERE;
    return braid_priced(b) ? price_of_last(b, braid_load(b) + reserved + 1) : 0;
}

int64_t braid_one_less(const braid *b, int32_t reserved) {
    return braid_priced(b) ? -price_of_last(b, braid_load(b) - reserved) : 0;
}

static void turn(braid *b, int sign) {
    int64_t smallest = most64(1, b->mean * SMALLEST / 100);  // or a price would never be at rest
    if (b->step == 0) b->step = b->mean * STEP / 100;
    if (b->last_turn == -sign) {
        b->step = b->step * SHRINK / 100;
        b->flips++;
    }
    if (b->step < smallest) b->step = smallest;
    b->last_turn = (int8_t)sign;
    if (sign > 0) b->rises++;
    b->price = sign > 0 ? b->price + b->step : most64(0, b->price - b->step);
}

void braid_unsettle_price(braid *b) {
    b->flips = 0;
    b->rises = 0;
    b->step = 0;
    b->scale_turns = 0;
}

// The mean can fall a long way at once: when a neighbour leaves that named a huge cost.
static void follow_mean(braid *b) {
    int64_t mean = braid_mean_cost(b);
    if (mean != b->mean) {
        b->changed_since = b->r.now;
        b->settlings = 0;
        braid_unsettle_price(b);
        if (b->price > HIGHEST * mean) b->price = HIGHEST * mean;
    }
    b->mean = mean;
    if (b->r.count[ROUTER_PREVIOUS] + b->r.count[ROUTER_NEXT] == 0) b->price = 0;
}

void braid_adjust_price(braid *b) {
    follow_mean(b);
    if (!braid_priced(b)) return;
    int32_t load = braid_load(b), over = load - (int32_t)b->r.config.capacity;
    bool eases = over < 0 && b->price > 0 && b->flips < FLIPS;
    int sign = over > 0 ? 1 : eases ? -1 : 0;
    if (sign == 0 || sign != b->tends || load != b->tended_load) b->tends_since = b->r.now;
    b->tends = (int8_t)sign;
    b->tended_load = load;
    if (sign == 0) return;
    int64_t patience = (sign > 0 ? RAISE : EASE) * b->r.config.delay;
    if (b->r.now - b->tends_since >= patience) {
        turn(b, sign);
        b->tends_since = b->r.now;
    }
    router_want(&b->r, b->tends_since + patience);
}
