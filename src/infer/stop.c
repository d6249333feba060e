#include "infer/stop.h"

#include <stdlib.h>
#include <string.h>

typedef struct stop_string {
    char *at;
    size_t length;
    // The number of bytes that match at the end of the text so far, and for each such number the next shorter
    // one that matches, too (Knuth, Morris, Pratt 1977).
    size_t matched;
    uint16_t *shorter;
} stop_string;

struct stop_filter {
    stop_string strings[STOP_MAX_STRINGS];
    uint32_t count;
    char *held;                      // bytes of the text that were not shown
    size_t length, capacity, shown;  // shown: of held, by the last call
};

static bool fill_string(stop_string *s, const char *text) {
    s->length = strlen(text);
    s->at = malloc(s->length + 1);
    s->shorter = calloc(s->length + 1, sizeof *s->shorter);
    if (!s->at || !s->shorter) return false;
    memcpy(s->at, text, s->length + 1);
    for (size_t i = 1, k = 0; i < s->length; i++) {
        while (k > 0 && text[i] != text[k]) k = s->shorter[k];
        if (text[i] == text[k]) k++;
        s->shorter[i + 1] = (uint16_t)k;
    }
    return true;
}

braid_err stop_filter_new(const char *const *strings, uint32_t count, stop_filter **out, braid_error *error) {
    *out = NULL;
    if (count > STOP_MAX_STRINGS)
        return braid_fail(error, BRAID_CONFIG, "%u stop strings are too many: give at most %d", count,
                          STOP_MAX_STRINGS);
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(strings[i]);
        if (length == 0 || length > STOP_MAX_BYTES)
            return braid_fail(error, BRAID_CONFIG, "a stop string has %zu bytes: give 1 to %d", length, STOP_MAX_BYTES);
    }
    stop_filter *f = calloc(1, sizeof *f);
    bool good = f != NULL;
    for (uint32_t i = 0; i < count && good; i++) {
        f->count++;
        good = fill_string(&f->strings[i], strings[i]);
    }
    if (!good) {
        stop_filter_free(f);
        return braid_fail(error, BRAID_MEMORY, "no memory for the stop strings");
    }
    *out = f;
    return BRAID_OK;
}

void stop_filter_free(stop_filter *f) {
    if (!f) return;
    for (uint32_t i = 0; i < f->count; i++) {
        free(f->strings[i].at);
        free(f->strings[i].shorter);
    }
    free(f->held);
    free(f);
}

// True if the string is complete with this byte.
static bool advance(stop_string *s, char byte) {
    while (s->matched > 0 && s->at[s->matched] != byte) s->matched = s->shorter[s->matched];
    if (s->at[s->matched] == byte) s->matched++;
    return s->matched == s->length;
}

// The longest string that is complete with this byte begins first. 0: none is.
static size_t complete(stop_filter *f, char byte) {
    size_t longest = 0;
    for (uint32_t i = 0; i < f->count; i++)
        if (advance(&f->strings[i], byte) && f->strings[i].length > longest) longest = f->strings[i].length;
    return longest;
}

static void forget_shown(stop_filter *f) {
    f->length -= f->shown;
    if (f->shown) memmove(f->held, f->held + f->shown, f->length);
    f->shown = 0;
}

static bool hold(stop_filter *f, const char *piece, size_t length) {
    forget_shown(f);
    if (f->length + length > f->capacity) {
        size_t capacity = 2 * (f->length + length);
        char *more = realloc(f->held, capacity);
        if (!more) return false;
        f->held = more;
        f->capacity = capacity;
    }
    if (length) memcpy(f->held + f->length, piece, length);
    f->length += length;
    return true;
}

static void show(stop_filter *f, size_t count, const char **text, size_t *length) {
    *text = count ? f->held : "";
    *length = f->shown = count;
}

braid_err stop_filter_add(stop_filter *f, const char *piece, size_t piece_length, const char **text, size_t *length,
                          bool *stopped, braid_error *error) {
    *text = "";
    *length = 0;
    *stopped = false;
    if (!hold(f, piece, piece_length)) return braid_fail(error, BRAID_MEMORY, "no memory for the text");
    size_t before = f->length - piece_length;
    for (size_t i = 0; i < piece_length; i++) {
        size_t found = complete(f, piece[i]);
        if (found == 0) continue;
        *stopped = true;
        show(f, before + i + 1 - found, text, length);
        return BRAID_OK;
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < f->count; i++) kept = f->strings[i].matched > kept ? f->strings[i].matched : kept;
    show(f, f->length - kept, text, length);
    return BRAID_OK;
}

void stop_filter_end(stop_filter *f, const char **text, size_t *length) {
    forget_shown(f);
    show(f, f->length, text, length);
}
