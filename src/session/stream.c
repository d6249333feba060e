// Rows from a peer to the next one of a path. The receiver asks (WANT); the sender sends what it has
// in order. Both ends use it: origin and span.
#include "session/inside.h"

void sender_want(sender *s, const session_message_want *want) {
    if (s->active && s->incarnation == want->incarnation && want->ask <= s->ask) {
        if (want->limit > s->limit) s->limit = want->limit;
        return;
    }
    s->active = true;
    s->compare = true;
    s->owes = true;
    s->incarnation = want->incarnation;
    s->ask = want->ask;
    s->want_cut = want->cut;
    s->sent = want->from;
    s->limit = want->limit;
}

void sender_cut(sender *s, uint32_t at) {
    if (s->sent > at) s->sent = at;
    s->owes = true;
}

bool sender_open(sender *s, const session_cuts *cuts) {
    if (!s->active) return false;
    if (!s->compare) return true;
    if (cuts->now < s->want_cut) return false;
    uint32_t valid = cuts_valid(cuts, s->want_cut);
    if (s->sent > valid) s->sent = valid;
    s->compare = false;
    return true;
}
