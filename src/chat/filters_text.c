// Filters of texts and numbers.
#include "chat/inside.h"

#include <math.h>
#include <stdio.h>

static value one_text(vm *v, value in, const arguments *a, const char *name) {
    return take_arguments(v, a, name, "", NULL) ? value_string(v, in) : value_none();
}

static value run_upper(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "upper");
    return vm_failed(v) ? x : text_case(v, x, CASE_UPPER);
}
static value run_lower(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "lower");
    return vm_failed(v) ? x : text_case(v, x, CASE_LOWER);
}
static value run_capitalize(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "capitalize");
    return vm_failed(v) ? x : text_case(v, x, CASE_CAPITAL);
}
static value run_title(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "title");
    return vm_failed(v) ? x : text_title_filter(v, x);
}
static value run_string(vm *v, value in, const arguments *a) { return one_text(v, in, a, "string"); }

static value run_safe(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "safe");
    x.mark = 1;
    return x;
}

static value run_escape(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "escape");
    if (vm_failed(v) || (is_text(in) && in.mark)) return x;
    return text_escape(v, x);
}

static value run_trim(vm *v, value in, const arguments *a) {
    value chars;
    if (!take_arguments(v, a, "trim", "chars=", &chars)) return value_none();
    in = value_string(v, in);
    return vm_failed(v) ? in : text_strip(v, in, chars, true, true);
}

static value run_replace(vm *v, value in, const arguments *a) {
    value given[3];
    if (!take_arguments(v, a, "replace", "old new count=", given)) return value_none();
    value x = value_string(v, in), old = value_string(v, given[0]), new = value_string(v, given[1]);
    int64_t most = take_int(v, given[2], "replace", -1);
    return vm_failed(v) ? value_none() : text_replace(v, x, old, new, most);
}

static value run_center(vm *v, value in, const arguments *a) {
    value width;
    if (!take_arguments(v, a, "center", "width=", &width)) return value_none();
    int64_t n = take_int(v, width, "center", 80);
    in = value_string(v, in);
    return vm_failed(v) ? in : text_pad(v, in, n, VALUE_LITERAL(" "), true, true);
}

static value run_format(vm *v, value in, const arguments *a) {
    if (a->named_count > 0 && a->count > 0) return vm_fail(v, "'format' has values by place or by name, not both");
    value x = value_string(v, in);
    if (vm_failed(v)) return x;
    value values = a->named_count > 0 ? value_new_dict(v, a->named_count) : value_new_list(v, VALUE_TUPLE, a->count);
    for (uint32_t i = 0; i < a->named_count && !vm_failed(v); i++)
        dict_put(v, values.dict, a->named[i].key, a->named[i].value);
    for (uint32_t i = 0; a->named_count == 0 && i < a->count && !vm_failed(v); i++) values.list->items[i] = a->at[i];
    return vm_failed(v) ? value_none() : format_percent(v, x, values);
}

static value run_indent(vm *v, value in, const arguments *a) {
    value given[3];
    if (!take_arguments(v, a, "indent", "width= first= blank=", given)) return value_none();
    if (!is_text(in)) return vm_fail(v, "'indent' needs a text, not '%s'", kind_name((value_kind)in.kind));
    value by = given[0];
    if (!is_text(by))
        by = text_pad(v, VALUE_LITERAL(""), take_int(v, by, "indent", 4), VALUE_LITERAL(" "), true, false);
    if (vm_failed(v)) return value_none();
    value lines = text_lines(v, add_values(v, in, VALUE_LITERAL("\n")), false);
    bool first = value_truth(v, given[1]), blank = value_truth(v, given[2]);
    buffer out = {0};
    for (uint32_t i = 0; !vm_failed(v) && i < lines.list->count; i++) {
        value line = lines.list->items[i];
        if (i > 0) buffer_byte(&out, '\n');
        if (i == 0 ? first : blank || line.length > 0) buffer_add(&out, by.text, by.length);
        buffer_add(&out, line.text, line.length);
        vm_charge(v, (by.length + line.length) / 64);
    }
    return value_take_buffer(v, &out);
}

static value run_truncate(vm *v, value in, const arguments *a) {
    value given[4];
    if (!take_arguments(v, a, "truncate", "length= killwords= end= leeway=", given)) return value_none();
    if (!is_text(in)) return vm_fail(v, "'truncate' needs a text, not '%s'", kind_name((value_kind)in.kind));
    value end = given[2].kind == VALUE_MISSING ? VALUE_LITERAL("...") : given[2];
    if (!is_text(end)) return vm_fail(v, "'truncate' needs a text as its end");
    int64_t length = take_int(v, given[0], "truncate", 255), leeway = take_int(v, given[3], "truncate", 5);
    int64_t room = length - (int64_t)text_chars(v, end);
    if (room < 0 || leeway < 0) return vm_fail(v, "'truncate' has a length or leeway that is too small");
    if ((int64_t)text_chars(v, in) <= length + leeway) return in;
    value kept = value_text(in.text, text_offset(in, (size_t)room));
    if (!value_truth(v, given[1])) {
        size_t space = text_rfind(v, kept, VALUE_LITERAL(" "), kept.length);
        if (space != SIZE_MAX) kept.length = (uint32_t)space;
    }
    return add_values(v, kept, end);
}

static value run_wordcount(vm *v, value in, const arguments *a) {
    value x = one_text(v, in, a, "wordcount");
    int64_t count = 0;
    bool word = false;
    for (size_t at = 0; !vm_failed(v) && at < x.length && vm_charge(v, 1);) {
        uint32_t c = utf8_next(x.text, &at);
        bool inside = c == '_' || (unicode_flags(c) & (UNI_LETTER | UNI_NUMBER));
        count += inside && !word;
        word = inside;
    }
    return value_int(count);
}

static value run_urlencode(vm *v, value in, const arguments *a) {
    static const char hex[] = "0123456789ABCDEF";
    if (!is_text(in) && is_iterable(in))
        return vm_fail(v, "'urlencode' of a '%s' is not supported", kind_name((value_kind)in.kind));
    value x = one_text(v, in, a, "urlencode");
    buffer out = {0};
    for (uint32_t i = 0; !vm_failed(v) && i < x.length && vm_charge(v, 1); i++) {
        char c = x.text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~/", c));
        if (!plain) buffer_byte(&out, '%');
        if (!plain) buffer_byte(&out, hex[(uint8_t)c >> 4]);
        buffer_byte(&out, plain ? c : hex[c & 15]);
    }
    return value_take_buffer(v, &out);
}

// ---- numbers

// A Python number in a text; false: it is none.
static bool parse_float(value x, double *out) {
    char text[128], *end;
    size_t n = 0;
    for (uint32_t i = 0; i < x.length; i++) {
        char c = x.text[i];
        if (c == '_' && i > 0 && i + 1 < x.length) continue;
        if (n + 1 == sizeof text || !c || c == 'x' || c == 'X' || c == 'p' || c == '(') return false;
        text[n++] = c;
    }
    text[n] = 0;
    *out = strtod(text, &end);
    return n > 0 && *end == 0 && text[0] != ' ';
}

static bool parse_integer(value x, int base, int64_t *out) {
    bool negative = x.length > 0 && x.text[0] == '-';
    uint32_t i = x.length > 0 && (x.text[0] == '-' || x.text[0] == '+');
    if (x.length >= i + 2 && x.text[i] == '0') {
        char c = (char)(x.text[i + 1] | 0x20);
        if ((base == 16 && c == 'x') || (base == 8 && c == 'o') || (base == 2 && c == 'b')) i += 2;
    }
    if (i == x.length) return false;
    for (*out = 0; i < x.length; i++) {
        char c = x.text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'z' ? c - 'a' + 10
                    : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                           : 99;
        if (c == '_' && i > 0 && x.text[i - 1] != '_' && i + 1 < x.length) continue;
        if (digit >= base || __builtin_mul_overflow(*out, base, out) || __builtin_add_overflow(*out, digit, out))
            return false;
    }
    if (negative) *out = -*out;
    return true;
}

static value whole_part(vm *v, double x, value fallback) {
    if (isnan(x) || isinf(x)) return fallback;
    if (x <= -9.2e18 || x >= 9.2e18) return vm_fail(v, "an integer leaves 64 bits, which is not supported");
    return value_int((int64_t)x);
}

static value run_int(vm *v, value in, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, "int", "default= base=", given)) return value_none();
    value fallback = given[0].kind == VALUE_MISSING ? value_int(0) : given[0];
    int64_t base = take_int(v, given[1], "int", 10), n;
    double real;
    if (base < 2 || base > 36) return vm_fail(v, "'int' has a base from 2 to 36");
    if (is_undefined(in)) return fail_undefined(v, in);
    if (in.kind == VALUE_INT || in.kind == VALUE_BIG) return in;
    if (is_number(in)) return whole_part(v, value_real(in), fallback);
    if (!is_text(in)) return fallback;
    value x = text_strip(v, in, value_none(), true, true);
    if (parse_integer(x, (int)base, &n)) return value_int(n);
    return parse_float(x, &real) ? whole_part(v, real, fallback) : fallback;
}

static value run_float(vm *v, value in, const arguments *a) {
    value fallback;
    double real;
    if (!take_arguments(v, a, "float", "default=", &fallback)) return value_none();
    if (fallback.kind == VALUE_MISSING) fallback = value_float(0);
    if (is_undefined(in)) return fail_undefined(v, in);
    if (is_number(in)) return value_float(value_real(in));
    if (!is_text(in)) return fallback;
    return parse_float(text_strip(v, in, value_none(), true, true), &real) ? value_float(real) : fallback;
}

static value run_abs(vm *v, value in, const arguments *a) {
    if (!take_arguments(v, a, "abs", "", NULL)) return value_none();
    if (is_undefined(in)) return fail_undefined(v, in);
    if (!is_number(in)) return vm_fail(v, "'abs' needs a number, not '%s'", kind_name((value_kind)in.kind));
    if (in.kind == VALUE_FLOAT) return value_float(fabs(in.real));
    int64_t n = in.kind == VALUE_INT ? in.integer : in.truth;
    return n < 0 ? operate(v, OP_SUB, value_int(0), value_int(n)) : value_int(n);
}

// Half to even on the decimal digits, as Python rounds.
static value round_common(vm *v, value in, int64_t places) {
    if (in.kind != VALUE_FLOAT && places >= 0) return in.kind == VALUE_INT ? in : value_int(in.truth);
    if (in.kind != VALUE_FLOAT || places < 0) return vm_fail(v, "'round' to less than whole numbers is not supported");
    char text[400];
    snprintf(text, sizeof text, "%.*f", (int)places, in.real);
    return value_float(strtod(text, NULL));
}

static value run_round(vm *v, value in, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, "round", "precision= method=", given)) return value_none();
    int64_t places = take_int(v, given[0], "round", 0);
    value method = given[1].kind == VALUE_MISSING ? VALUE_LITERAL("common") : given[1];
    if (is_undefined(in)) return fail_undefined(v, in);
    if (!is_number(in)) return vm_fail(v, "'round' needs a number, not '%s'", kind_name((value_kind)in.kind));
    if (places > 60) return vm_fail(v, "'round' keeps at most 60 digits");
    if (text_is(method, "common")) return round_common(v, in, places);
    bool up = text_is(method, "ceil");
    if (!up && !text_is(method, "floor")) return vm_fail(v, "the method of 'round' is common, ceil or floor");
    double scale = pow(10, (double)places), x = value_real(in) * scale;
    return value_float((up ? ceil(x) : floor(x)) / scale);
}

const filter_entry filters_of_texts[] = {{"upper", run_upper},
                                         {"lower", run_lower},
                                         {"capitalize", run_capitalize},
                                         {"title", run_title},
                                         {"string", run_string},
                                         {"safe", run_safe},
                                         {"escape", run_escape},
                                         {"e", run_escape},
                                         {"trim", run_trim},
                                         {"replace", run_replace},
                                         {"center", run_center},
                                         {"format", run_format},
                                         {"indent", run_indent},
                                         {"truncate", run_truncate},
                                         {"wordcount", run_wordcount},
                                         {"urlencode", run_urlencode},
                                         {"int", run_int},
                                         {"float", run_float},
                                         {"abs", run_abs},
                                         {"round", run_round},
                                         {NULL, NULL}};
