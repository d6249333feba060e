// The filter tojson: json.dumps of Python with ensure_ascii off, unless a template asks for it.
#include "chat/inside.h"

#include <math.h>
#include <stdio.h>

typedef struct json_style {
    bool ascii, sorted, pretty;
    value indent, item, key;  // texts
} json_style;

static void put_escaped(uint32_t c, bool ascii, buffer *out) {
    static const char names[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *name = c > 0 && c < 0x80 ? strchr(names, (char)c) : NULL;
    char text[16];
    if (name) {
        text[0] = '\\';
        text[1] = letters[name - names];
        text[2] = 0;
    } else if (c >= 0x10000 && ascii) {
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + (c & 0x3ff)));
    } else if (c < 0x20 || (ascii && c > 0x7e)) {
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    } else {
        buffer_char(out, c);
        return;
    }
    buffer_add(out, text, strlen(text));
}

static void put_text(vm *v, value x, bool ascii, buffer *out) {
    vm_charge(v, x.length / 16);
    buffer_byte(out, '"');
    for (size_t at = 0; at < x.length;) put_escaped(utf8_next(x.text, &at), ascii, out);
    buffer_byte(out, '"');
}

void json_quote(const char *text, size_t length, buffer *out) {
    buffer_byte(out, '"');
    for (size_t at = 0; at < length;) {
        uint32_t c = utf8_next(text, &at);
        if (c > 0) put_escaped(c, false, out);
    }
    buffer_byte(out, '"');
}

static void put_line(const json_style *s, unsigned depth, buffer *out) {
    if (!s->pretty) return;
    buffer_byte(out, '\n');
    for (unsigned i = 0; i < depth; i++) buffer_add(out, s->indent.text, s->indent.length);
}

static void put_value(vm *v, value x, const json_style *s, unsigned depth, buffer *out);

static void put_list(vm *v, value x, const json_style *s, unsigned depth, buffer *out) {
    buffer_byte(out, '[');
    for (uint32_t i = 0; i < x.list->count && !vm_failed(v); i++) {
        if (i > 0) buffer_add(out, s->item.text, s->item.length);
        put_line(s, depth + 1, out);
        put_value(v, x.list->items[i], s, depth + 1, out);
    }
    if (x.list->count > 0) put_line(s, depth, out);
    buffer_byte(out, ']');
}

// A key that is no text is written as one.
static void put_key(vm *v, value key, const json_style *s, buffer *out) {
    if (is_text(key)) {
        put_text(v, key, s->ascii, out);
        return;
    }
    if (!is_number(key) && key.kind != VALUE_NONE)
        vm_fail(v, "a key of type '%s' cannot be written as JSON", kind_name((value_kind)key.kind));
    buffer_byte(out, '"');
    put_value(v, key, s, 0, out);
    buffer_byte(out, '"');
}

// Stable, by insertion; keys must have an order.
static const dict_entry *sorted_entries(vm *v, const value_dict *d) {
    dict_entry *e = vm_take(v, d->count * sizeof *e);
    for (uint32_t i = 0; e && i < d->count && !vm_failed(v); i++) {
        uint32_t to = i;
        for (; to > 0 && value_order(v, d->entries[i].key, e[to - 1].key) < 0; to--) e[to] = e[to - 1];
        e[to] = d->entries[i];
    }
    return e;
}

static void put_dict(vm *v, const value_dict *d, const json_style *s, unsigned depth, buffer *out) {
    const dict_entry *entries = s->sorted && d->count > 0 ? sorted_entries(v, d) : d->entries;
    buffer_byte(out, '{');
    for (uint32_t i = 0; i < d->count && !vm_failed(v); i++) {
        if (i > 0) buffer_add(out, s->item.text, s->item.length);
        put_line(s, depth + 1, out);
        put_key(v, entries[i].key, s, out);
        buffer_add(out, s->key.text, s->key.length);
        put_value(v, entries[i].value, s, depth + 1, out);
    }
    if (d->count > 0) put_line(s, depth, out);
    buffer_byte(out, '}');
}

static void put_float(double x, buffer *out) {
    const char *name = isnan(x) ? "NaN" : isinf(x) ? x < 0 ? "-Infinity" : "Infinity" : NULL;
    if (name)
        buffer_add(out, name, strlen(name));
    else
        print_float(x, out);
}

static void put_value(vm *v, value x, const json_style *s, unsigned depth, buffer *out) {
    if (depth > CHAT_MAX_VALUE_DEPTH) vm_fail_code(v, BRAID_LIMIT, "values are nested too deeply");
    if (out->count > CHAT_MAX_OUTPUT_BYTES) vm_fail_code(v, BRAID_LIMIT, "a value is too long to be printed");
    if (!vm_charge(v, 1)) return;
    switch (x.kind) {
    case VALUE_NONE: buffer_add(out, "null", 4); break;
    case VALUE_BOOL: buffer_add(out, x.truth ? "true" : "false", x.truth ? 4 : 5); break;
    case VALUE_INT:
    case VALUE_BIG: print_repr(v, x, out); break;
    case VALUE_FLOAT: put_float(x.real, out); break;
    case VALUE_STRING: put_text(v, x, s->ascii, out); break;
    case VALUE_LIST:
    case VALUE_TUPLE: put_list(v, x, s, depth, out); break;
    case VALUE_DICT: put_dict(v, x.dict, s, depth, out); break;
    case VALUE_UNDEFINED: fail_undefined(v, x); break;
    default: vm_fail(v, "a value of type '%s' cannot be written as JSON", kind_name((value_kind)x.kind));
    }
}

static void take_indent(vm *v, value x, json_style *s) {
    static const char spaces[] = "                                                                ";
    if (x.kind == VALUE_MISSING || x.kind == VALUE_NONE) return;
    s->pretty = true;
    s->indent = x;
    if (is_text(x)) return;
    int64_t n = take_int(v, x, "tojson", 0);
    if (n > 64) vm_fail(v, "tojson indents by at most 64 spaces");
    s->indent = value_text(spaces, n < 0 || n > 64 ? 0 : (size_t)n);
}

static void take_separators(vm *v, value x, json_style *s) {
    s->item = s->pretty ? VALUE_LITERAL(",") : VALUE_LITERAL(", ");
    s->key = VALUE_LITERAL(": ");
    if (x.kind == VALUE_MISSING || x.kind == VALUE_NONE) return;
    if (!is_list(x) || x.list->count != 2 || !is_text(x.list->items[0]) || !is_text(x.list->items[1])) {
        vm_fail(v, "the separators of tojson are two texts");
        return;
    }
    s->item = x.list->items[0];
    s->key = x.list->items[1];
}

value filter_json(vm *v, value x, const arguments *a) {
    value given[4];
    if (!take_arguments(v, a, "tojson", "ensure_ascii= indent= separators= sort_keys=", given)) return value_none();
    json_style s = {.ascii = value_truth(v, given[0]), .sorted = value_truth(v, given[3])};
    take_indent(v, given[1], &s);
    take_separators(v, given[2], &s);
    buffer out = {0};
    put_value(v, x, &s, 0, &out);
    return value_take_buffer(v, &out);
}
