// Texts by characters, as Python's str has them.
#include "chat/inside.h"

#include <utf8proc.h>

size_t text_chars(vm *v, value x) {
    size_t count = 0;
    vm_charge(v, x.length / 64);
    for (uint32_t i = 0; i < x.length; i++) count += ((uint8_t)x.text[i] & 0xc0) != 0x80;
    return count;
}

size_t text_offset(value x, size_t chars) {
    size_t at = 0;
    for (; chars > 0 && at < x.length; chars--) at += utf8_width(x.text[at]);
    return at;
}

bool is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

// ---- search. A step for each 64 bytes that are compared, so that a hostile text cannot make it slow.

size_t text_find(vm *v, value text, value part, size_t from) {
    if (part.length > text.length) return SIZE_MAX;
    if (part.length == 0) return from <= text.length ? from : SIZE_MAX;
    while (from + part.length <= text.length && !vm_failed(v)) {
        const char *first = memchr(text.text + from, part.text[0], text.length - part.length - from + 1);
        if (!first) return SIZE_MAX;
        size_t at = (size_t)(first - text.text);
        vm_charge(v, 1 + part.length / 64);
        if (memcmp(first, part.text, part.length) == 0) return at;
        from = at + 1;
    }
    return SIZE_MAX;
}

size_t text_rfind(vm *v, value text, value part, size_t end) {
    if (part.length > end) return SIZE_MAX;
    for (size_t at = end - part.length;; at--) {
        if (!vm_charge(v, 1 + part.length / 64)) return SIZE_MAX;
        if (memcmp(text.text + at, part.text, part.length) == 0) return at;
        if (at == 0) return SIZE_MAX;
    }
}

// ---- strip

static bool in_set(value set, uint32_t c) {
    for (size_t at = 0; at < set.length;)
        if (utf8_next(set.text, &at) == c) return true;
    return false;
}

// `chars` is MISSING or NONE for white space.
value text_strip(vm *v, value x, value chars, bool left, bool right) {
    bool space = chars.kind == VALUE_MISSING || chars.kind == VALUE_NONE;
    if (!space && !is_text(chars)) return vm_fail(v, "strip needs a text of characters");
    size_t begin = 0, end = x.length;
    while (left && begin < end && vm_charge(v, 1 + chars.length / 64)) {
        size_t at = begin;
        uint32_t c = utf8_next(x.text, &at);
        if (space ? !is_space(c) : !in_set(chars, c)) break;
        begin = at;
    }
    while (right && end > begin && vm_charge(v, 1 + chars.length / 64)) {
        size_t before = utf8_before(x.text, end), at = before;
        uint32_t c = utf8_next(x.text, &at);
        if (space ? !is_space(c) : !in_set(chars, c)) break;
        end = before;
    }
    return value_text(x.text + begin, end - begin);
}

// ---- case

static const struct {
    uint32_t character;
    const char *upper, *title;
} special[] = {
#include "chat/case_table.inc"
};

static const char *special_case(uint32_t c, bool title) {
    for (size_t i = 0; c >= 0xdf && i < sizeof special / sizeof *special; i++)
        if (special[i].character == c) return title ? special[i].title : special[i].upper;
    return NULL;
}

static unsigned category(uint32_t c) { return unicode_flags(c) & UNI_CATEGORY; }
static bool is_cased(uint32_t c) {
    unsigned k = category(c);
    return k == UNICODE_LU || k == UNICODE_LL || k == UNICODE_LT;
}

static void put_upper(uint32_t c, bool title, buffer *out) {
    const char *many = special_case(c, title);
    if (many)
        buffer_add(out, many, strlen(many));
    else
        buffer_char(out, (uint32_t)(title ? utf8proc_totitle((int32_t)c) : utf8proc_toupper((int32_t)c)));
}

// Is the sigma between `before` and `after` the last letter of a word? Case-ignorable characters do not matter.
static bool ignorable(uint32_t c) {
    unsigned k = category(c);
    return k == UNICODE_MN || k == UNICODE_ME || k == UNICODE_CF || k == UNICODE_LM || k == UNICODE_SK || c == '\'' ||
           c == '.' || c == ':' || c == 0xb7 || c == 0x2019;
}

static bool final_sigma(value x, size_t at, size_t after) {
    bool before = false;
    while (at > 0) {
        size_t start = utf8_before(x.text, at), next = start;
        uint32_t c = utf8_next(x.text, &next);
        at = start;
        if (ignorable(c)) continue;
        before = is_cased(c);
        break;
    }
    while (before && after < x.length) {
        uint32_t c = utf8_next(x.text, &after);
        if (!ignorable(c)) return !is_cased(c);
    }
    return before;
}

static void put_lower(value x, size_t at, size_t after, uint32_t c, buffer *out) {
    if (c == 0x3a3)
        buffer_char(out, final_sigma(x, at, after) ? 0x3c2 : 0x3c3);
    else if (c == 0x130)
        buffer_add(out, "i\xcc\x87", 3);
    else
        buffer_char(out, (uint32_t)utf8proc_tolower((int32_t)c));
}

value text_case(vm *v, value x, case_kind kind) {
    buffer out = {0};
    bool word = false;
    for (size_t at = 0, next = 0; at < x.length && vm_charge(v, 1); at = next) {
        uint32_t c = utf8_next(x.text, &next);
        bool first = kind == CASE_TITLE ? !word : kind == CASE_CAPITAL && at == 0;
        if (kind == CASE_UPPER || (kind == CASE_SWAP && category(c) == UNICODE_LL))
            put_upper(c, false, &out);
        else if (first)
            put_upper(c, true, &out);
        else if (kind != CASE_SWAP || category(c) == UNICODE_LU)
            put_lower(x, at, next, c, &out);
        else
            buffer_char(&out, c);
        word = is_cased(c);
    }
    return value_take_buffer(v, &out);
}

// Words begin after white space and -({[<; their first letter is upper case, the others are lower case.
value text_title_filter(vm *v, value x) {
    buffer out = {0};
    bool first = true;
    size_t word = 0;
    for (size_t at = 0, next = 0; at < x.length && vm_charge(v, 1); at = next) {
        uint32_t c = utf8_next(x.text, &next);
        bool border = is_space(c) || (c < 0x80 && c != 0 && strchr("-({[<", (char)c));
        if (first && !border) word = at;
        if (border || first)
            put_upper(c, false, &out);
        else
            put_lower(value_text(x.text + word, x.length - word), at - word, next - word, c, &out);
        first = border;
    }
    return value_take_buffer(v, &out);
}

bool text_is_case(value x, bool upper) {
    bool any = false;
    for (size_t at = 0; at < x.length;) {
        unsigned k = category(utf8_next(x.text, &at));
        if (k == UNICODE_LT || k == (upper ? UNICODE_LL : UNICODE_LU)) return false;
        any = any || k == (upper ? UNICODE_LU : UNICODE_LL);
    }
    return any;
}

static bool has_class(uint32_t c, const char *what) {
    unsigned flags = unicode_flags(c), k = flags & UNI_CATEGORY;
    bool digit = k == UNICODE_ND || (c >= 0xb2 && c <= 0xb3) || c == 0xb9 || c == 0x2070 ||
                 (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
    if (strcmp(what, "isalpha") == 0) return flags & UNI_LETTER;
    if (strcmp(what, "isalnum") == 0) return flags & (UNI_LETTER | UNI_NUMBER);
    if (strcmp(what, "isdigit") == 0) return digit;
    if (strcmp(what, "isdecimal") == 0) return k == UNICODE_ND;
    if (strcmp(what, "isnumeric") == 0) return flags & UNI_NUMBER;
    if (strcmp(what, "isascii") == 0) return c < 0x80;
    return is_space(c);
}

bool text_has_flags(value x, const char *what) {
    for (size_t at = 0; at < x.length;)
        if (!has_class(utf8_next(x.text, &at), what)) return false;
    return x.length > 0 || strcmp(what, "isascii") == 0;
}

// ---- replace, split, lines, padding

// Between characters, where `old` is empty.
static void replace_empty(vm *v, value x, value new, int64_t most, buffer *out) {
    for (size_t at = 0; vm_charge(v, 1 + new.length / 64);) {
        if (most-- > 0) buffer_add(out, new.text, new.length);
        if (at == x.length) break;
        size_t width = utf8_width(x.text[at]);
        buffer_add(out, x.text + at, width);
        at += width;
    }
}

value text_replace(vm *v, value x, value old, value new, int64_t most) {
    buffer out = {0};
    if (most < 0) most = INT64_MAX;
    if (old.length == 0) {
        replace_empty(v, x, new, most, &out);
        return value_take_buffer(v, &out);
    }
    size_t at = 0, found;
    while (most-- > 0 && (found = text_find(v, x, old, at)) != SIZE_MAX) {
        buffer_add(&out, x.text + at, found - at);
        buffer_add(&out, new.text, new.length);
        at = found + old.length;
        if (out.count > CHAT_MAX_OUTPUT_BYTES) vm_fail_code(v, BRAID_LIMIT, "a text is too long");
        if (!vm_charge(v, 1 + new.length / 64)) break;
    }
    if (at == 0) {
        buffer_free(&out);
        return x;
    }
    buffer_add(&out, x.text + at, x.length - at);
    return value_take_buffer(v, &out);
}

typedef struct pieces {
    value *at;
    uint32_t count, capacity;
} pieces;

static void add_piece(vm *v, pieces *p, const char *text, size_t length) {
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity * 2 + 8;
        value *more = vm_take(v, capacity * sizeof *more);
        if (!more) return;
        if (p->count > 0) memcpy(more, p->at, p->count * sizeof *more);
        p->at = more;
        p->capacity = capacity;
    }
    p->at[p->count++] = value_text(text, length);
}

static value take_pieces(vm *v, const pieces *p, bool reverse) {
    value list = value_new_list(v, VALUE_LIST, p->count);
    for (uint32_t i = 0; !vm_failed(v) && i < p->count; i++)
        list.list->items[i] = p->at[reverse ? p->count - 1 - i : i];
    return list;
}

static void split_space(vm *v, value x, int64_t most, pieces *p) {
    size_t at = 0;
    value none = {0};
    while (vm_charge(v, 1)) {
        value rest = text_strip(v, value_text(x.text + at, x.length - at), none, true, false);
        at = x.length - rest.length;
        if (rest.length == 0) return;
        if (most-- == 0) {
            rest = text_strip(v, rest, none, false, true);
            add_piece(v, p, rest.text, rest.length);
            return;
        }
        size_t end = at, next = at;
        while (end < x.length && !is_space(utf8_next(x.text, &next))) end = next;
        vm_charge(v, (end - at) / 64);
        add_piece(v, p, x.text + at, end - at);
        at = end;
    }
}

static void split_space_right(vm *v, value x, int64_t most, pieces *p) {
    value none = {0};
    size_t end = x.length;
    while (vm_charge(v, 1)) {
        end = text_strip(v, value_text(x.text, end), none, false, true).length;
        if (end == 0) return;
        if (most-- == 0) {
            value rest = text_strip(v, value_text(x.text, end), none, true, false);
            add_piece(v, p, rest.text, rest.length);
            return;
        }
        size_t begin = end;
        while (begin > 0) {
            size_t before = utf8_before(x.text, begin), next = before;
            if (is_space(utf8_next(x.text, &next))) break;
            begin = before;
        }
        add_piece(v, p, x.text + begin, end - begin);
        end = begin;
    }
}

static void split_text(vm *v, value x, value separator, int64_t most, pieces *p) {
    size_t at = 0, found;
    while (most-- > 0 && (found = text_find(v, x, separator, at)) != SIZE_MAX && !vm_failed(v)) {
        add_piece(v, p, x.text + at, found - at);
        at = found + separator.length;
    }
    add_piece(v, p, x.text + at, x.length - at);
}

static void split_text_right(vm *v, value x, value separator, int64_t most, pieces *p) {
    size_t end = x.length, found;
    while (most-- > 0 && (found = text_rfind(v, x, separator, end)) != SIZE_MAX && !vm_failed(v)) {
        add_piece(v, p, x.text + found + separator.length, end - found - separator.length);
        end = found;
    }
    add_piece(v, p, x.text, end);
}

value text_split(vm *v, value x, value separator, int64_t most, bool from_right) {
    pieces p = {0};
    if (most < 0) most = INT64_MAX;
    bool space = separator.kind == VALUE_MISSING || separator.kind == VALUE_NONE;
    if (!space && (!is_text(separator) || separator.length == 0))
        return vm_fail(v, "split needs a separator that is not empty");
    if (space && from_right)
        split_space_right(v, x, most, &p);
    else if (space)
        split_space(v, x, most, &p);
    else if (from_right)
        split_text_right(v, x, separator, most, &p);
    else
        split_text(v, x, separator, most, &p);
    return take_pieces(v, &p, from_right);
}

static bool line_end(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

value text_lines(vm *v, value x, bool keep) {
    pieces p = {0};
    size_t begin = 0, at = 0;
    while (at < x.length && vm_charge(v, 1)) {
        size_t end = at;
        uint32_t c = utf8_next(x.text, &at);
        if (!line_end(c)) continue;
        if (c == '\r' && at < x.length && x.text[at] == '\n') at++;
        add_piece(v, &p, x.text + begin, (keep ? at : end) - begin);
        begin = at;
    }
    if (begin < x.length) add_piece(v, &p, x.text + begin, x.length - begin);
    return take_pieces(v, &p, false);
}

value text_pad(vm *v, value x, int64_t width, value fill, bool left, bool right) {
    int64_t chars = (int64_t)text_chars(v, x), more = width - chars;
    if (fill.kind == VALUE_MISSING) fill = VALUE_LITERAL(" ");
    if (!is_text(fill) || text_chars(v, fill) != 1) return vm_fail(v, "padding needs one character");
    if (more <= 0) return x;
    if (more > CHAT_MAX_OUTPUT_BYTES) return vm_fail_code(v, BRAID_LIMIT, "a text is too long");
    // Python's center: an odd space goes to the left where the width is odd
    int64_t before = left && right ? more / 2 + (more & width & 1) : left ? more : 0;
    buffer out = {0};
    for (int64_t i = 0; i < before && vm_charge(v, 1); i++) buffer_add(&out, fill.text, fill.length);
    buffer_add(&out, x.text, x.length);
    for (int64_t i = before; i < more && vm_charge(v, 1); i++) buffer_add(&out, fill.text, fill.length);
    return value_take_buffer(v, &out);
}

value text_escape(vm *v, value x) {
    buffer out = {0};
    for (uint32_t i = 0; i < x.length && vm_charge(v, 1); i++) {
        char c = x.text[i];
        const char *name = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '\'' ? "&#39;"
                           : c == '"'  ? "&#34;"
                                       : NULL;
        buffer_add(&out, name ? name : &c, name ? strlen(name) : 1);
    }
    x = value_take_buffer(v, &out);
    x.mark = 1;
    return x;
}
