// '%s' % values and '{}'.format(values).
#include "chat/inside.h"

#include <stdio.h>

typedef struct directive {
    bool left, plus, space, zero, alternative;
    int width, precision;  // precision -1: none
    char kind;
} directive;

// After '%': flags, width, precision, kind. False: not supported.
static bool read_directive(value f, size_t *at, directive *d) {
    *d = (directive){.precision = -1};
    for (; *at < f.length && f.text[*at] && strchr("-+ 0#", f.text[*at]); ++*at) {
        char c = f.text[*at];
        d->left |= c == '-';
        d->plus |= c == '+';
        d->space |= c == ' ';
        d->zero |= c == '0';
        d->alternative |= c == '#';
    }
    for (; *at < f.length && f.text[*at] >= '0' && f.text[*at] <= '9' && d->width < 100000; ++*at)
        d->width = d->width * 10 + f.text[*at] - '0';
    if (*at < f.length && f.text[*at] == '.') {
        d->precision = 0;
        for (++*at; *at < f.length && f.text[*at] >= '0' && f.text[*at] <= '9' && d->precision < 100; ++*at)
            d->precision = d->precision * 10 + f.text[*at] - '0';
    }
    if (*at >= f.length || !f.text[*at] || d->width >= 100000 || d->precision > 60) return false;
    d->kind = f.text[(*at)++];
    return strchr("srdiufFeEgGxXoc%", d->kind) != NULL && !(d->alternative && strchr("xXogG", d->kind));
}

static void number_text(vm *v, const directive *d, value x, char out[512]) {
    char pattern[32];
    const char *sign = d->plus ? "+" : d->space ? " " : "", *zero = d->zero && !d->left ? "0" : "";
    int width = d->zero && !d->left && d->width < 400 ? d->width : 0;
    if (!is_number(x)) {
        vm_fail(v, "the format '%%%c' needs a number, not '%s'", d->kind, kind_name((value_kind)x.kind));
    } else if (strchr("diu", d->kind)) {
        double real = value_real(x);
        if (x.kind == VALUE_FLOAT && !(real > -9e18 && real < 9e18))
            vm_fail(v, "a number is too large for '%%%c'", d->kind);
        long long n = vm_failed(v)            ? 0
                      : x.kind == VALUE_FLOAT ? (long long)real
                      : x.kind == VALUE_INT   ? x.integer
                                              : x.truth;
        snprintf(pattern, sizeof pattern, "%%%s%s*%slld", sign, zero, d->precision >= 0 ? ".*" : "");
        if (d->precision >= 0)
            snprintf(out, 512, pattern, width, d->precision, n);
        else
            snprintf(out, 512, pattern, width, n);
    } else if (strchr("xXo", d->kind)) {
        if (x.kind != VALUE_INT || x.integer < 0)
            vm_fail(v, "the format '%%%c' needs an integer that is not negative", d->kind);
        snprintf(pattern, sizeof pattern, "%%%s*ll%c", zero, d->kind);
        snprintf(out, 512, pattern, width, x.kind == VALUE_INT ? x.integer : 0);
    } else {
        snprintf(pattern, sizeof pattern, "%%%s%s*.*%c", sign, zero, d->kind);
        snprintf(out, 512, pattern, width, d->precision < 0 ? 6 : d->precision, value_real(x));
    }
}

static void put_directive(vm *v, const directive *d, value x, buffer *out) {
    char number[512];
    value text = VALUE_LITERAL("");
    if (d->kind == 's' || d->kind == 'r') {
        buffer part = {0};
        if (d->kind == 's')
            print_value(v, x, &part);
        else
            print_repr(v, x, &part);
        text = value_take_buffer(v, &part);
        if (vm_failed(v)) return;
        if (d->precision >= 0) text.length = (uint32_t)text_offset(text, (size_t)d->precision);
    } else if (d->kind == 'c') {
        if (!is_text(x) || text_chars(v, x) != 1) vm_fail(v, "the format '%%c' needs one character");
        text = x;
    } else {
        number[0] = 0;
        number_text(v, d, x, number);
        text = value_text(number, strlen(number));
    }
    if (vm_failed(v)) return;
    text = text_pad(v, text, d->width, VALUE_LITERAL(" "), !d->left, d->left);
    if (!vm_failed(v)) buffer_add(out, text.text, text.length);
}

// The value of %(name)s; `at` is behind the '('.
static value named_operand(vm *v, value f, size_t *at, value operands) {
    size_t start = *at;
    while (*at < f.length && f.text[*at] != ')') ++*at;
    value name = value_text(f.text + start, *at - start);
    ++*at;
    if (operands.kind != VALUE_DICT) return vm_fail(v, "a format with names needs a dict");
    const value *x = dict_find(v, operands.dict, name);
    return x ? *x
             : vm_fail(v, "the format names '%.*s', which is not given", (int)(name.length < 60 ? name.length : 60),
                       name.text);
}

value format_percent(vm *v, value f, value operands) {
    buffer out = {0};
    uint32_t used = 0, count = operands.kind == VALUE_TUPLE ? operands.list->count : 1;
    const value *items = operands.kind == VALUE_TUPLE ? operands.list->items : &operands;
    if (f.mark) vm_fail(v, "'%%' on a text of the filters 'safe' or 'escape' is not supported");
    bool named = false;
    for (size_t at = 0; at < f.length && vm_charge(v, 1);) {
        if (f.text[at] != '%') {
            buffer_byte(&out, f.text[at++]);
            continue;
        }
        directive d = {0};
        value x = value_none();
        at++;
        bool name = at < f.length && f.text[at] == '(';
        if (name) {
            at++;
            x = named_operand(v, f, &at, operands);
            named = true;
        }
        if (!vm_failed(v) && (at > f.length || !read_directive(f, &at, &d)))
            vm_fail(v, "a format after '%%' is not supported");
        if (vm_failed(v)) break;
        if (d.kind == '%') {
            buffer_byte(&out, '%');
            continue;
        }
        if (!name && used == count) vm_fail(v, "the format has too few values");
        if (!name && !vm_failed(v)) x = items[used++];
        put_directive(v, &d, x, &out);
    }
    if (!named && used < count && operands.kind != VALUE_DICT) vm_fail(v, "the format has too many values");
    return value_take_buffer(v, &out);
}

// ---- format()

static const value *field_value(vm *v, value name, const arguments *a, uint32_t *next) {
    if (name.length == 0 || (name.text[0] >= '0' && name.text[0] <= '9')) {
        uint64_t i = name.length == 0 ? (*next)++ : 0;
        for (uint32_t k = 0; k < name.length; k++) {
            if (name.text[k] < '0' || name.text[k] > '9' || i > a->count)
                return vm_fail(v, "a field of the format is not supported"), NULL;
            i = i * 10 + (uint64_t)(name.text[k] - '0');
        }
        if (i < a->count) return &a->at[i];
        return vm_fail(v, "the format has too few values"), NULL;
    }
    for (uint32_t i = 0; i < a->named_count; i++)
        if (value_equal(v, a->named[i].key, name)) return &a->named[i].value;
    return vm_fail(v, "the format names '%.*s', which is not given", (int)(name.length < 60 ? name.length : 60),
                   name.text),
           NULL;
}

value format_braces(vm *v, value f, const arguments *a) {
    buffer out = {0};
    uint32_t next = 0;
    for (size_t at = 0; at < f.length && vm_charge(v, 1);) {
        char c = f.text[at++];
        bool brace = c == '{' || c == '}';
        if (!brace || (at < f.length && f.text[at] == c)) {
            buffer_byte(&out, c);
            at += brace;
            continue;
        }
        size_t start = at;
        while (c == '{' && at < f.length && f.text[at] != '}' && !strchr("{:!.[", f.text[at])) at++;
        if (c == '}' || at == f.length || f.text[at] != '}') {
            vm_fail(v, "a field of the format is not supported; only {}, {0} and {name} are");
            break;
        }
        const value *x = field_value(v, value_text(f.text + start, at - start), a, &next);
        if (x) print_value(v, *x, &out);
        at++;
    }
    return value_take_buffer(v, &out);
}
