// Values: what they are called, their truth, equality and order.
#include "chat/inside.h"

#include <math.h>

const char *kind_name(value_kind kind) {
    static const char *const names[] = {"missing", "Undefined", "NoneType",  "bool",       "int",
                                        "int",     "float",     "str",       "list",       "tuple",
                                        "dict",    "range",     "dict view", "generator",  "namespace",
                                        "Macro",   "function",  "method",    "LoopContext"};
    return names[kind];
}

// ---- undefined

static value undefined_of(vm *v, const value_undefined *u) {
    value_undefined *at = vm_take(v, sizeof *at);
    if (!at) return value_none();
    *at = *u;
    return VALUE_OF(VALUE_UNDEFINED, undefined, at);
}

value undefined_hint(const char *hint) { return (value){.kind = VALUE_UNDEFINED, .mark = 1, .text = hint}; }
value undefined_name(vm *v, value name) { return undefined_of(v, &(value_undefined){NULL, VALUE_MISSING, name}); }
value undefined_member(vm *v, value holder, value name) {
    return undefined_of(v, &(value_undefined){NULL, (value_kind)holder.kind, name});
}

value fail_undefined(vm *v, value undefined) {
    if (undefined.mark) return vm_fail(v, "%s", undefined.text);
    const value_undefined *u = undefined.undefined;
    buffer name = {0};
    if (is_text(u->name))
        buffer_add(&name, u->name.text, u->name.length < 100 ? u->name.length : 100);
    else
        print_repr(v, u->name, &name);
    buffer_byte(&name, 0);
    const char *text = name.failed ? "" : name.at;
    if (u->holder == VALUE_MISSING)
        vm_fail(v, "'%.100s' is undefined", text);
    else
        vm_fail(v, "a value of type '%s' has no attribute '%.100s'", kind_name(u->holder), text);
    buffer_free(&name);
    return value_none();
}

// ---- truth and length

bool value_length(vm *v, value x, uint32_t *length) {
    switch (x.kind) {
    case VALUE_STRING: *length = (uint32_t)text_chars(v, x); return true;
    case VALUE_LIST:
    case VALUE_TUPLE: *length = x.list->count; return true;
    case VALUE_DICT:
    case VALUE_VIEW: *length = x.dict->count; return true;
    case VALUE_RANGE: *length = x.range->count; return true;
    case VALUE_UNDEFINED: *length = 0; return true;
    default: return false;
    }
}

bool value_truth(vm *v, value x) {
    uint32_t length = 1;
    switch (x.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL: return x.truth;
    case VALUE_INT: return x.integer != 0;
    case VALUE_FLOAT: return x.real != 0;
    case VALUE_STRING: return x.length > 0;
    default: return value_length(v, x, &length) ? length > 0 : true;
    }
}

// ---- equality and order

double value_real(value x) {
    return x.kind == VALUE_FLOAT ? x.real : x.kind == VALUE_INT ? (double)x.integer : x.truth;
}
static int64_t whole(value x) { return x.kind == VALUE_BOOL ? x.truth : x.integer; }

// Exact for an integer and a float, as in Python.
static int number_order(value a, value b) {
    if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT) return (whole(a) > whole(b)) - (whole(a) < whole(b));
    double x = value_real(a), y = value_real(b);
    if (a.kind != b.kind && x == y && fabs(x) >= 0x1p53 && fabs(x) < 0x1p63) {
        int64_t n = a.kind == VALUE_FLOAT ? (int64_t)x : whole(a), m = b.kind == VALUE_FLOAT ? (int64_t)y : whole(b);
        return (n > m) - (n < m);
    }
    return (x > y) - (x < y);
}

static bool is_nan(value x) { return x.kind == VALUE_FLOAT && isnan(x.real); }

static int bytes_order(value a, value b) {
    uint32_t n = a.length < b.length ? a.length : b.length;
    int order = n > 0 ? memcmp(a.text, b.text, n) : 0;
    return order != 0 ? (order > 0) - (order < 0) : (a.length > b.length) - (a.length < b.length);
}

static bool enter(vm *v) {
    if (++v->depth <= CHAT_MAX_DEPTH && vm_charge(v, 1)) return true;
    vm_fail_code(v, BRAID_LIMIT, "values are nested too deeply");
    return false;
}

static bool equal_lists(vm *v, const value_list *a, const value_list *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count && !vm_failed(v); i++)
        if (!value_equal(v, a->items[i], b->items[i])) return false;
    return !vm_failed(v);
}

static bool equal_dicts(vm *v, const value_dict *a, const value_dict *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count && !vm_failed(v); i++) {
        const value *other = dict_find(v, b, a->entries[i].key);
        if (!other || !value_equal(v, a->entries[i].value, *other)) return false;
    }
    return !vm_failed(v);
}

static bool equal_ranges(const value_range *a, const value_range *b) {
    return a->count == b->count && (a->count == 0 || a->start == b->start) && (a->count < 2 || a->step == b->step);
}

static bool equal_inside(vm *v, value a, value b) {
    if (is_number(a) && is_number(b)) return !is_nan(a) && !is_nan(b) && number_order(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case VALUE_BIG:
    case VALUE_STRING:
        vm_charge(v, a.length / 64);
        return a.length == b.length && (a.length == 0 || memcmp(a.text, b.text, a.length) == 0);
    case VALUE_LIST:
    case VALUE_TUPLE: return equal_lists(v, a.list, b.list);
    case VALUE_DICT: return equal_dicts(v, a.dict, b.dict);
    case VALUE_RANGE: return equal_ranges(a.range, b.range);
    case VALUE_UNDEFINED:
    case VALUE_NONE: return true;
    case VALUE_FUNCTION: return a.mark == b.mark;
    case VALUE_METHOD: return a.method == b.method;
    default: return a.dict == b.dict;
    }
}

bool value_equal(vm *v, value a, value b) {
    bool equal = enter(v) && equal_inside(v, a, b);
    v->depth--;
    return equal;
}

static int lists_order(vm *v, const value_list *a, const value_list *b) {
    for (uint32_t i = 0; i < a->count && i < b->count && !vm_failed(v); i++)
        if (!value_equal(v, a->items[i], b->items[i])) return value_order(v, a->items[i], b->items[i]);
    return (a->count > b->count) - (a->count < b->count);
}

int value_order(vm *v, value a, value b) {
    int order = 0;
    if (!enter(v)) {
        v->depth--;
        return 0;
    }
    if (is_number(a) && is_number(b))
        order = number_order(a, b);
    else if (is_text(a) && is_text(b))
        order = bytes_order(a, b);
    else if (is_list(a) && a.kind == b.kind)
        order = lists_order(v, a.list, b.list);
    else if (is_undefined(a) || is_undefined(b))
        fail_undefined(v, is_undefined(a) ? a : b);
    else
        vm_fail(v, "values of types '%s' and '%s' have no order", kind_name((value_kind)a.kind),
                kind_name((value_kind)b.kind));
    v->depth--;
    return order;
}

// ---- construction

value value_copy_text(vm *v, const char *text, size_t length) {
    char *at = vm_take(v, length + 1);
    if (!at) return value_none();
    if (length > 0) memcpy(at, text, length);
    return value_text(at, length);
}

value value_take_buffer(vm *v, buffer *b) {
    if (b->failed) vm_fail_code(v, BRAID_MEMORY, "no memory for a text");
    value x = vm_failed(v) ? value_none() : value_copy_text(v, b->at, b->count);
    buffer_free(b);
    return x;
}

value value_new_list(vm *v, value_kind kind, uint32_t count) {
    value_list *list = vm_take(v, sizeof *list + count * sizeof *list->items);
    if (!list) return value_none();
    list->count = count;
    list->items = (value *)(list + 1);
    return VALUE_OF(kind, list, list);
}

value value_new_dict(vm *v, uint32_t capacity) {
    value_dict *d = vm_take(v, sizeof *d + capacity * sizeof *d->entries);
    if (!d) return value_none();
    d->capacity = capacity;
    d->entries = (dict_entry *)(d + 1);
    return VALUE_OF(VALUE_DICT, dict, d);
}

bool can_be_key(value x) {
    if (x.kind == VALUE_TUPLE)
        for (uint32_t i = 0; i < x.list->count; i++)
            if (!can_be_key(x.list->items[i])) return false;
    return x.kind != VALUE_LIST && x.kind != VALUE_DICT && x.kind != VALUE_VIEW;
}

const value *dict_find(vm *v, const value_dict *d, value key) {
    vm_charge(v, d->count / 16);
    for (uint32_t i = 0; i < d->count && !vm_failed(v); i++) {
        value k = d->entries[i].key;
        if (is_text(key) && is_text(k)) {
            if (k.length == key.length && memcmp(k.text, key.text, k.length) == 0) return &d->entries[i].value;
        } else if (value_equal(v, k, key)) {
            return &d->entries[i].value;
        }
    }
    return NULL;
}

const value *dict_find_text(vm *v, const value_dict *d, const char *key) {
    return dict_find(v, d, value_text(key, strlen(key)));
}

bool dict_put(vm *v, value_dict *d, value key, value x) {
    if (!can_be_key(key))
        return vm_fail(v, "a value of type '%s' cannot be a key", kind_name((value_kind)key.kind)), false;
    value *there = (value *)dict_find(v, d, key);
    if (there) *there = x;
    if (there || vm_failed(v)) return !vm_failed(v);
    if (d->count == d->capacity) {
        uint32_t capacity = d->capacity * 2 + 8;
        dict_entry *more = vm_take(v, capacity * sizeof *more);
        if (!more) return false;
        if (d->count > 0) memcpy(more, d->entries, d->count * sizeof *more);
        d->entries = more;
        d->capacity = capacity;
    }
    d->entries[d->count++] = (dict_entry){key, x};
    return true;
}
