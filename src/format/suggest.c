#include "format/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { SUGGEST_MIN_PART = 3 };  // leading letters that identify a name

static int suggest_letter(char c) { return c == '-' ? '_' : tolower((unsigned char)c); }

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

// Edit distance of two names of at most SUGGEST_MAX_NAME letters (optimal string alignment).
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

static bool same_letters(const char *a, const char *b, size_t length) {
    size_t i = 0;
    while (i < length && suggest_letter(a[i]) == suggest_letter(b[i])) i++;
    return i == length;
}

static bool word_ends(char c) { return c == 0 || suggest_letter(c) == '_'; }

// True if `part` is one or more whole words of `name`, such as "up" of "up_mbps".
static bool has_words(const char *name, size_t length, const char *part, size_t part_length) {
    for (size_t i = 0; i + part_length <= length; i++) {
        bool begins = i == 0 || word_ends(name[i - 1]);
        if (begins && word_ends(name[i + part_length]) && same_letters(name + i, part, part_length)) return true;
    }
    return false;
}

// The only name that consists of some words of `text`, or of which `text` is the beginning or some
// of the words. NULL when several names match, because then none is likely.
static const char *suggest_part(const char *text, size_t length, const char *const *names, size_t count) {
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        bool begins = length >= SUGGEST_MIN_PART && other > length && same_letters(names[i], text, length);
        bool part = begins || has_words(names[i], other, text, length) ||
                    (other >= SUGGEST_MIN_PART && has_words(text, length, names[i], other));
        if (!part) continue;
        if (found != NULL && strcmp(found, names[i]) != 0) return NULL;
        found = names[i];
    }
    return found;
}

const char *suggest_name(const char *text, const char *const *names, size_t count) {
    size_t length = strlen(text);
    if (length == 0 || length > SUGGEST_MAX_NAME) return NULL;
    // The allowed distance: a third of the letters, but at least two if the name is long enough.
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
    return found != NULL ? found : suggest_part(text, length, names, count);
}
