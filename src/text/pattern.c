// A pattern is a literal text or a regular expression.
#include "text/inside.h"

bool pattern_next(const pattern *p, const char *text, size_t length, regex_place *place, size_t *start, size_t *end,
                  regex_scratch *scratch, braid_error *error, braid_err *err) {
    if (length == 0) return false;
    if (p->regex) return regex_next(p->regex, scratch, text, length, place, start, end, error, err);
    const char *found = memmem(text + place->at, length - place->at, p->literal, p->literal_length);
    if (!found) return false;
    *start = (size_t)(found - text);
    *end = place->at = *start + p->literal_length;
    return true;
}

bool pattern_replace(const pattern *p, const char *text, size_t length, const char *content, size_t content_length,
                     buffer *out, regex_scratch *scratch, braid_error *error, braid_err *err) {
    regex_place place = {0};
    size_t start, end, gap = 0;
    bool any = false;
    out->count = 0;
    while (pattern_next(p, text, length, &place, &start, &end, scratch, error, err)) {
        any = true;
        buffer_add(out, text + gap, start - gap);
        buffer_add(out, content, content_length);
        gap = end;
    }
    if (any) buffer_add(out, text + gap, length - gap);
    return any;
}

void pattern_free(pattern *p) {
    free(p->literal);
    regex_free(p->regex);
    *p = (pattern){0};
}
