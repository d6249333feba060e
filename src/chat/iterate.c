// Iteration. Filters such as map and select are lazy, as in Jinja: an item is computed when it is asked for.
#include "chat/inside.h"

bool is_iterable(value x) {
    switch (x.kind) {
    case VALUE_UNDEFINED:
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_RANGE:
    case VALUE_VIEW:
    case VALUE_ITERATOR:
    case VALUE_LOOP: return true;
    default: return false;
    }
}

iterator *iterate(vm *v, value x) {
    if (x.kind == VALUE_ITERATOR) return x.iterator;
    if (!is_iterable(x) || x.kind == VALUE_LOOP) {
        vm_fail(v, "a value of type '%s' cannot be iterated", kind_name((value_kind)x.kind));
        return NULL;
    }
    iterator *it = vm_take(v, sizeof *it);
    if (it) it->source = x;
    return it;
}

static value pair(vm *v, value a, value b) {
    value t = value_new_list(v, VALUE_TUPLE, 2);
    if (vm_failed(v)) return t;
    t.list->items[0] = a;
    t.list->items[1] = b;
    return t;
}

// The item at an index of a value that has a length.
static value item_at(vm *v, value x, uint32_t i) {
    if (is_list(x)) return x.list->items[i];
    if (x.kind == VALUE_RANGE) return value_int(x.range->start + (int64_t)i * x.range->step);
    const dict_entry *e = &x.dict->entries[i];
    if (x.kind == VALUE_DICT || x.mark == VIEW_KEYS) return e->key;
    return x.mark == VIEW_VALUES ? e->value : pair(v, e->key, e->value);
}

static bool next_value(vm *v, iterator *it, value *out) {
    value x = it->source;
    uint32_t count = 0;
    if (is_text(x)) {
        if (it->at >= x.length) return false;
        size_t start = it->at;
        utf8_next(x.text, &it->at);
        *out = value_text(x.text + start, it->at - start);
        return true;
    }
    if (!value_length(v, x, &count) || it->at >= count) return false;
    *out = item_at(v, x, it->kind == ITERATE_REVERSE ? count - 1 - (uint32_t)it->at : (uint32_t)it->at);
    it->at++;
    return true;
}

// The value of an item that a filter looks at.
static value looked_at(vm *v, const iterator *it, value item) {
    if (it->attribute.kind == VALUE_MISSING) return item;
    return attribute_path(v, item, it->attribute, it->fallback);
}

static bool selected(vm *v, const iterator *it, value item) {
    value x = looked_at(v, it, item);
    bool yes = it->name.kind == VALUE_MISSING ? value_truth(v, x) : v->test(v, it->name, x, &it->arguments);
    return yes == it->wanted;
}

static bool is_new(vm *v, iterator *it, value item) {
    value x = looked_at(v, it, item);
    if (!it->plain && is_text(x)) x = text_case(v, x, CASE_LOWER);
    if (!can_be_key(x))
        return vm_fail(v, "a value of type '%s' cannot be compared by 'unique'", kind_name((value_kind)x.kind)), false;
    if (vm_failed(v) || dict_find(v, it->seen, x)) return false;
    return dict_put(v, it->seen, x, value_none());
}

static bool next_batch(vm *v, iterator *it, value *out) {
    value list = value_new_list(v, VALUE_LIST, it->batch), item;
    uint32_t count = 0;
    while (!vm_failed(v) && count < it->batch && iterate_next(v, it->from, &item)) list.list->items[count++] = item;
    if (vm_failed(v) || count == 0) return false;
    bool filled = it->fallback.kind != VALUE_MISSING && it->fallback.kind != VALUE_NONE;
    while (filled && count < it->batch) list.list->items[count++] = it->fallback;
    ((value_list *)list.list)->count = count;
    *out = list;
    return true;
}

static bool keeps(vm *v, iterator *it, value item) {
    if (it->kind == ITERATE_UNIQUE) return is_new(v, it, item);
    if (it->kind == ITERATE_LOOP) return v->test_node(v, it->condition, it->scope, it->target, item);
    return selected(v, it, item);
}

bool iterate_next(vm *v, iterator *it, value *out) {
    if (!vm_charge(v, 1)) return false;
    switch (it->kind) {
    case ITERATE_VALUE:
    case ITERATE_REVERSE: return next_value(v, it, out);
    case ITERATE_BATCH: return next_batch(v, it, out);
    case ITERATE_MAP:
    case ITERATE_MAP_ATTRIBUTE:
        if (!iterate_next(v, it->from, out)) return false;
        *out = it->kind == ITERATE_MAP ? v->filter(v, it->name, *out, &it->arguments) : looked_at(v, it, *out);
        return !vm_failed(v);
    default:
        while (iterate_next(v, it->from, out) && !vm_failed(v))
            if (keeps(v, it, *out)) return !vm_failed(v);
        return false;
    }
}

value iterate_list(vm *v, value x) {
    uint32_t capacity = 16, count = 0;
    value_length(v, x, &capacity);
    iterator *it = iterate(v, x);
    if (!it) return value_none();
    value list = value_new_list(v, VALUE_LIST, capacity), item;
    while (!vm_failed(v) && iterate_next(v, it, &item)) {
        if (count == capacity) {
            capacity = capacity * 2 + 8;
            value more = value_new_list(v, VALUE_LIST, capacity);
            if (vm_failed(v)) return more;
            if (count > 0) memcpy(more.list->items, list.list->items, count * sizeof item);
            list = more;
        }
        list.list->items[count++] = item;
    }
    if (!vm_failed(v)) ((value_list *)list.list)->count = count;
    return list;
}

value reverse_value(vm *v, value x) {
    if (is_text(x)) {
        char *at = vm_take(v, (size_t)x.length + 1);
        for (size_t from = 0, to = x.length; at && from < x.length;) {
            size_t width = utf8_width(x.text[from]);
            to -= width;
            memcpy(at + to, x.text + from, width);
            from += width;
        }
        return at ? value_text(at, x.length) : value_none();
    }
    if (x.kind == VALUE_ITERATOR || x.kind == VALUE_UNDEFINED) x = iterate_list(v, x);
    iterator *it = vm_failed(v) ? NULL : iterate(v, x);
    if (!it) return value_none();
    it->kind = ITERATE_REVERSE;
    return VALUE_OF(VALUE_ITERATOR, iterator, it);
}

// ---- attributes by a path

static bool all_digits(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9') return false;
    return length > 0 && length < 10;
}

value attribute_path(vm *v, value x, value path, value fallback) {
    if (path.kind == VALUE_NONE) return x;
    bool has_fallback = fallback.kind != VALUE_MISSING && fallback.kind != VALUE_NONE;
    if (!is_text(path)) {
        x = get_item(v, x, path);
        return has_fallback && is_undefined(x) ? fallback : x;
    }
    for (size_t at = 0; at <= path.length && !vm_failed(v);) {
        const char *part = path.text + at, *dot = at < path.length ? memchr(part, '.', path.length - at) : NULL;
        size_t length = dot ? (size_t)(dot - part) : path.length - at;
        char digits[16] = {0};
        if (all_digits(part, length)) memcpy(digits, part, length);
        x = get_item(v, x, digits[0] ? value_int(atoll(digits)) : value_text(part, length));
        if (has_fallback && is_undefined(x)) x = fallback;
        at += length + 1;
    }
    return x;
}
