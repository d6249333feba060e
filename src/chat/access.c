// Attributes, items and slices, with Python's and Jinja's order of lookup: x.name asks the type first, x['name'] the
// value first.
#include "chat/inside.h"

static value method_of(vm *v, value x, const char *name) {
    value_method *m = vm_take(v, sizeof *m);
    if (!m) return value_none();
    *m = (value_method){x, name};
    return VALUE_OF(VALUE_METHOD, method, m);
}

// An attribute that Python's type has; false: none.
static bool type_attribute(vm *v, value x, value name, value *out) {
    if (x.kind == VALUE_NAMESPACE) {
        const value *there = dict_find(v, x.dict, name);
        if (there) *out = *there;
        return there != NULL;
    }
    if (x.kind == VALUE_LOOP) {
        *out = loop_attribute(v, x.loop, name);
        return out->kind != VALUE_MISSING;
    }
    const char *method = method_name((value_kind)x.kind, name);
    if (method) *out = method_of(v, x, method);
    return method != NULL;
}

static bool value_member(vm *v, value x, value key, value *out) {
    if (x.kind != VALUE_DICT || !can_be_key(key)) return false;
    const value *there = dict_find(v, x.dict, key);
    if (there) *out = *there;
    return there != NULL;
}

value get_attribute(vm *v, value x, value name) {
    value out;
    if (vm_failed(v)) return value_none();
    if (is_undefined(x)) return fail_undefined(v, x);
    if (type_attribute(v, x, name, &out) || value_member(v, x, name, &out)) return out;
    return undefined_member(v, x, name);
}

static bool index_item(vm *v, value x, int64_t i, value *out) {
    uint32_t count;
    if (!is_text(x) && !is_list(x) && x.kind != VALUE_RANGE) return false;
    value_length(v, x, &count);
    if (i < 0) i += count;
    if (i < 0 || i >= count) return false;
    if (is_list(x)) {
        *out = x.list->items[i];
    } else if (x.kind == VALUE_RANGE) {
        *out = value_int(x.range->start + i * x.range->step);
    } else {
        size_t at = x.length == count ? (size_t)i : text_offset(x, (size_t)i);
        *out = value_text(x.text + at, utf8_width(x.text[at]));
    }
    return true;
}

value get_item(vm *v, value x, value key) {
    value out;
    if (vm_failed(v)) return value_none();
    if (is_undefined(x)) return fail_undefined(v, x);
    if (x.kind == VALUE_DICT) {
        if (value_member(v, x, key, &out)) return out;
    } else if (key.kind == VALUE_INT || key.kind == VALUE_BOOL) {
        if (index_item(v, x, key.kind == VALUE_INT ? key.integer : key.truth, &out)) return out;
    }
    if (is_text(key) && key.length > 1 && memcmp(key.text, "__", 2) == 0)
        return vm_fail(v, "the attribute '%.*s' is internal to Python", (int)(key.length < 60 ? key.length : 60),
                       key.text);
    if (is_text(key) && type_attribute(v, x, key, &out)) return out;
    return undefined_member(v, x, key);
}

// ---- slices

static bool bound(value x, int64_t *out, bool *given) {
    *given = x.kind != VALUE_NONE && x.kind != VALUE_MISSING;
    if (x.kind == VALUE_INT) *out = x.integer;
    if (x.kind == VALUE_BOOL) *out = x.truth;
    return !*given || x.kind == VALUE_INT || x.kind == VALUE_BOOL;
}

static int64_t clamp(int64_t i, int64_t count, int64_t least, int64_t most) {
    if (i < 0) i = i < -count ? least : i + count;
    return i < least ? least : i > most ? most : i;
}

static value slice_text(vm *v, value x, int64_t start, int64_t step, uint32_t count) {
    if (step == 1) {
        size_t from = text_offset(x, (size_t)start),
               length = text_offset(value_text(x.text + from, x.length - from), count);
        vm_charge(v, (from + length) / 64);
        return value_text(x.text + from, length);
    }
    value chars = iterate_list(v, x);
    buffer out = {0};
    for (uint32_t i = 0; i < count && !vm_failed(v); i++) {
        value c = chars.list->items[start + (int64_t)i * step];
        buffer_add(&out, c.text, c.length);
    }
    return value_take_buffer(v, &out);
}

value get_slice(vm *v, value x, value start, value stop, value step) {
    int64_t by = 1, from = 0, to = 0;
    bool has_step, has_start, has_stop;
    uint32_t length = 0;
    if (vm_failed(v)) return value_none();
    if (is_undefined(x)) return fail_undefined(v, x);
    bool fits = (is_text(x) || is_list(x)) && bound(start, &from, &has_start) && bound(stop, &to, &has_stop) &&
                bound(step, &by, &has_step);
    if (x.kind == VALUE_RANGE) return vm_fail(v, "a slice of a range is not supported");
    if (!fits) return undefined_member(v, x, VALUE_LITERAL("slice"));
    if (by == 0) return vm_fail(v, "the step of a slice is 0");
    value_length(v, x, &length);
    int64_t count = length, least = by < 0 ? -1 : 0, most = by < 0 ? count - 1 : count;
    from = has_start ? clamp(from, count, least, most) : by < 0 ? most : 0;
    to = has_stop ? clamp(to, count, least, most) : by < 0 ? -1 : count;
    int64_t span = by < 0 ? from - to : to - from, stride = by < 0       ? -(by < -count ? -count - 1 : by)
                                                            : by > count ? count + 1
                                                                         : by;
    uint32_t items = span > 0 ? (uint32_t)((span - 1) / stride + 1) : 0;
    if (by < 0) stride = -stride;
    if (is_text(x)) return slice_text(v, x, from, stride, items);
    value list = value_new_list(v, (value_kind)x.kind, items);
    for (uint32_t i = 0; i < items && !vm_failed(v); i++)
        list.list->items[i] = x.list->items[from + (int64_t)i * stride];
    return list;
}
