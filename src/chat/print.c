// str() and repr() of Python.
#include "chat/inside.h"

#include <math.h>
#include <stdio.h>

void print_float(double x, buffer *out) {
    if (isnan(x) || isinf(x)) {
        const char *name = isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
        buffer_add(out, name, strlen(name));
        return;
    }
    char shortest[40], text[64];
    for (int digits = 0; digits < 18; digits++) {
        snprintf(shortest, sizeof shortest, "%.*e", digits, x);
        if (strtod(shortest, NULL) == x) break;
    }
    int digits = 0, exponent = atoi(strchr(shortest, 'e') + 1);
    for (const char *c = shortest; *c != 'e'; c++) digits += *c >= '0' && *c <= '9';
    if (exponent < -4 || exponent >= 16) {
        int mantissa = (int)(strchr(shortest, 'e') - shortest);
        snprintf(text, sizeof text, "%.*se%c%02d", mantissa, shortest, exponent < 0 ? '-' : '+', abs(exponent));
    } else {
        int places = digits - 1 - exponent;
        snprintf(text, sizeof text, "%.*f", places > 1 ? places : 1, x);
    }
    buffer_add(out, text, strlen(text));
}

static bool printable(uint32_t c) {
    if (c == ' ') return true;
    switch (unicode_flags(c) & UNI_CATEGORY) {
    case UNICODE_CN:
    case UNICODE_CC:
    case UNICODE_CF:
    case UNICODE_CO:
    case UNICODE_CS:
    case UNICODE_ZL:
    case UNICODE_ZP:
    case UNICODE_ZS: return false;
    default: return true;
    }
}

static void repr_char(uint32_t c, char quote, buffer *out) {
    char text[16] = {'\\'};
    if (c == (uint8_t)quote || c == '\\')
        text[1] = (char)c;
    else if (c == '\n' || c == '\r' || c == '\t')
        text[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
    else if (printable(c))
        text[utf8_put(text, c)] = 0;
    else
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    buffer_add(out, text, strlen(text));
}

static void repr_text(value x, buffer *out) {
    char quote = x.length > 0 && memchr(x.text, '\'', x.length) && !memchr(x.text, '"', x.length) ? '"' : '\'';
    buffer_byte(out, quote);
    for (size_t at = 0; at < x.length;) repr_char(utf8_next(x.text, &at), quote, out);
    buffer_byte(out, quote);
}

static void add(buffer *out, const char *text) { buffer_add(out, text, strlen(text)); }

static void repr_list(vm *v, value x, buffer *out) {
    add(out, x.kind == VALUE_LIST ? "[" : "(");
    for (uint32_t i = 0; i < x.list->count && !vm_failed(v); i++) {
        if (i > 0) add(out, ", ");
        print_repr(v, x.list->items[i], out);
    }
    if (x.kind == VALUE_TUPLE && x.list->count == 1) add(out, ",");
    add(out, x.kind == VALUE_LIST ? "]" : ")");
}

static void repr_dict(vm *v, const value_dict *d, buffer *out) {
    add(out, "{");
    for (uint32_t i = 0; i < d->count && !vm_failed(v); i++) {
        if (i > 0) add(out, ", ");
        print_repr(v, d->entries[i].key, out);
        add(out, ": ");
        print_repr(v, d->entries[i].value, out);
    }
    add(out, "}");
}

static void repr_view(vm *v, value x, buffer *out) {
    static const char *const names[] = {"dict_keys(", "dict_values(", "dict_items("};
    add(out, names[x.mark]);
    repr_list(v, iterate_list(v, x), out);
    add(out, ")");
}

static void repr_range(const value_range *r, buffer *out) {
    char text[96];
    long long end = (long long)r->stop;
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, end);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start, end, (long long)r->step);
    add(out, text);
}

static void repr_inside(vm *v, value x, buffer *out) {
    char number[32];
    switch (x.kind) {
    case VALUE_UNDEFINED: add(out, "Undefined"); break;
    case VALUE_NONE: add(out, "None"); break;
    case VALUE_BOOL: add(out, x.truth ? "True" : "False"); break;
    case VALUE_INT:
        snprintf(number, sizeof number, "%lld", (long long)x.integer);
        add(out, number);
        break;
    case VALUE_BIG: buffer_add(out, x.text, x.length); break;
    case VALUE_FLOAT: print_float(x.real, out); break;
    case VALUE_STRING:
        if (x.mark) vm_fail(v, "a text of the filters 'safe' or 'escape' inside of a list is not supported");
        repr_text(x, out);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE: repr_list(v, x, out); break;
    case VALUE_DICT: repr_dict(v, x.dict, out); break;
    case VALUE_VIEW: repr_view(v, x, out); break;
    case VALUE_RANGE: repr_range(x.range, out); break;
    default: vm_fail(v, "a value of type '%s' cannot be printed", kind_name((value_kind)x.kind));
    }
}

void print_repr(vm *v, value x, buffer *out) {
    if (++v->depth > CHAT_MAX_DEPTH) vm_fail_code(v, BRAID_LIMIT, "values are nested too deeply");
    if (out->count > CHAT_MAX_OUTPUT_BYTES) vm_fail_code(v, BRAID_LIMIT, "a value is too long to be printed");
    if (vm_charge(v, 1)) repr_inside(v, x, out);
    v->depth--;
}

void print_value(vm *v, value x, buffer *out) {
    if (is_text(x))
        buffer_add(out, x.text, x.length);
    else if (!is_undefined(x))
        print_repr(v, x, out);
}

value value_string(vm *v, value x) {
    if (is_text(x)) return x;
    buffer out = {0};
    print_value(v, x, &out);
    return value_take_buffer(v, &out);
}
