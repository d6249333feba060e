// The functions of the environment.
#include "chat/inside.h"

#include <stdio.h>

enum { MOST_RANGE = 100000 };  // as in Jinja's sandbox

static const struct {
    const char *name;
    global_kind kind;
} globals[] = {{"range", GLOBAL_RANGE},           {"dict", GLOBAL_DICT},
               {"namespace", GLOBAL_NAMESPACE},   {"raise_exception", GLOBAL_RAISE},
               {"strftime_now", GLOBAL_STRFTIME}, {"lipsum", GLOBAL_LIPSUM},
               {"cycler", GLOBAL_CYCLER},         {"joiner", GLOBAL_JOINER}};

bool find_global(value name, value *out) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (!text_is(name, globals[i].name)) continue;
        *out = (value){.kind = VALUE_FUNCTION, .mark = (uint8_t)globals[i].kind};
        return true;
    }
    return false;
}

static value make_range(vm *v, const arguments *a) {
    value given[3];
    if (!take_arguments(v, a, "range", "start stop= step=", given)) return value_none();
    for (int i = 0; i < 3; i++)
        if (given[i].kind == VALUE_NONE || is_undefined(given[i]))
            return vm_fail(v, "'range' needs integers, not '%s'", kind_name((value_kind)given[i].kind));
    bool one = given[1].kind == VALUE_MISSING;
    int64_t start = one ? 0 : take_int(v, given[0], "range", 0), stop = take_int(v, given[one ? 0 : 1], "range", 0);
    int64_t step = take_int(v, given[2], "range", 1), most = INT64_MAX / 4;
    if (vm_failed(v)) return value_none();
    if (step == 0) return vm_fail(v, "the step of 'range' is 0");
    if (start > most || start < -most || stop > most || stop < -most || step > most || step < -most)
        return vm_fail(v, "'range' has numbers that are too large");
    int64_t span = step > 0 ? stop - start : start - stop, by = step > 0 ? step : -step;
    int64_t count = span > 0 ? (span - 1) / by + 1 : 0;
    if (count > MOST_RANGE) return vm_fail_code(v, BRAID_LIMIT, "'range' has more than %d items", MOST_RANGE);
    value_range *r = vm_take(v, sizeof *r);
    if (!r) return value_none();
    *r = (value_range){start, stop, step, (uint32_t)count};
    return VALUE_OF(VALUE_RANGE, range, r);
}

static void add_pairs(vm *v, value d, value pairs) {
    iterator *it = iterate(v, pairs);
    value item;
    while (it && iterate_next(v, it, &item) && !vm_failed(v)) {
        if (is_list(item) && item.list->count == 2)
            dict_put(v, d.dict, item.list->items[0], item.list->items[1]);
        else
            vm_fail(v, "'dict' needs pairs of a key and a value");
    }
}

// dict(mapping or pairs, name=value ...)
static value make_dict(vm *v, const arguments *a) {
    value d = value_new_dict(v, 4);
    if (vm_failed(v)) return d;
    if (a->count > 1) return vm_fail(v, "'dict' takes one value without a name");
    if (a->count == 1 && a->at[0].kind == VALUE_DICT) {
        for (uint32_t i = 0; i < a->at[0].dict->count && !vm_failed(v); i++)
            dict_put(v, d.dict, a->at[0].dict->entries[i].key, a->at[0].dict->entries[i].value);
    } else if (a->count == 1) {
        add_pairs(v, d, a->at[0]);
    }
    for (uint32_t i = 0; i < a->named_count && !vm_failed(v); i++)
        dict_put(v, d.dict, a->named[i].key, a->named[i].value);
    return d;
}

static value make_namespace(vm *v, const arguments *a) {
    value d = make_dict(v, a);
    if (vm_failed(v)) return d;
    for (uint32_t i = 0; i < d.dict->count; i++) {
        value key = d.dict->entries[i].key;
        if (is_text(key) && key.length > 0 && key.text[0] == '_')
            return vm_fail(v, "an attribute of a namespace may not begin with '_'");
    }
    d.kind = VALUE_NAMESPACE;
    return d;
}

static value raise_exception(vm *v, const arguments *a) {
    value message;
    if (!take_arguments(v, a, "raise_exception", "message", &message)) return value_none();
    message = value_string(v, message);
    if (vm_failed(v)) return value_none();
    return vm_fail_code(v, BRAID_ARGUMENT, "the template refuses these messages: %.*s",
                        (int)(message.length < 300 ? message.length : 300), message.text);
}

static value strftime_now(vm *v, const arguments *a) {
    value format;
    char copy[256], text[512];
    if (!take_arguments(v, a, "strftime_now", "format", &format)) return value_none();
    if (!is_text(format) || format.length >= sizeof copy)
        return vm_fail(v, "'strftime_now' needs a format of at most 255 bytes");
    if (!v->now) return vm_fail(v, "the template asks for the date, which was not given");
    for (uint32_t i = 0; i < format.length; i++) {
        if (format.text[i] != '%') continue;
        i++;
        if (i == format.length || !format.text[i] || !strchr("aAbBcdDeFhHIjmMnpRStTuUVwWxXyYG%", format.text[i]))
            return vm_fail(v, "a directive of 'strftime_now' is not supported");
    }
    memcpy(copy, format.text, format.length);
    copy[format.length] = 0;
    size_t length = strftime(text, sizeof text, copy, v->now);
    if (length == 0 && format.length > 0) return vm_fail(v, "the date of 'strftime_now' is too long");
    return value_copy_text(v, text, length);
}

value call_global(vm *v, value callee, const arguments *a) {
    switch ((global_kind)callee.mark) {
    case GLOBAL_RANGE: return make_range(v, a);
    case GLOBAL_DICT: return make_dict(v, a);
    case GLOBAL_NAMESPACE: return make_namespace(v, a);
    case GLOBAL_RAISE: return raise_exception(v, a);
    case GLOBAL_STRFTIME: return strftime_now(v, a);
    case GLOBAL_LIPSUM: return vm_fail(v, "the function 'lipsum' is not supported");
    case GLOBAL_CYCLER: return vm_fail(v, "the function 'cycler' is not supported");
    default: return vm_fail(v, "the function 'joiner' is not supported");
    }
}
