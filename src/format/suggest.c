#include "format/suggest.h"

#include <ctype.h>
#include <string.h>

static int suggest_letter(char c) { return c == '-' ? '_' : tolower((unsigned char)c); }

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

// Edits between two names of at most SUGGEST_MAX_NAME letters (optimal string alignment).
static unsigned suggest_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    unsigned row[3][SUGGEST_MAX_NAME + 1];
    unsigned *before = row[0], *last = row[1], *now = row[2];
    for (size_t j = 0; j <= b_length; j++) last[j] = (unsigned)j;
    memcpy(before, last, sizeof row[0]);
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            int x = suggest_letter(a[i - 1]), y = suggest_letter(b[j - 1]);
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == suggest_letter(b[j - 2]) && y == suggest_letter(a[i - 2]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[b_length];
}

const char *suggest_name(const char *text, const char *const *names, size_t count) {
    size_t length = strlen(text);
    if (length == 0 || length > SUGGEST_MAX_NAME) return NULL;
    // A third of the letters may be wrong, and two at least when there are as many.
    unsigned best = length < 4 ? 1 : (unsigned)(length / 3 > 2 ? length / 3 : 2);
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        if (other > SUGGEST_MAX_NAME) continue;
        unsigned distance = suggest_distance(text, length, names[i], other);
        if (distance > best || (found != NULL && distance == best)) continue;
        best = distance;
        found = names[i];
    }
    return found;
}
