// Filters of sequences and dicts.
#include "chat/inside.h"

static value fail_argument(vm *v, const char *name, const char *needed) {
    return vm_fail(v, "'%s' needs %s", name, needed);
}

static value run_length(vm *v, value in, const arguments *a) {
    uint32_t length;
    if (!take_arguments(v, a, "length", "", NULL)) return value_none();
    if (in.kind == VALUE_LOOP) return loop_attribute(v, in.loop, VALUE_LITERAL("length"));
    if (!value_length(v, in, &length))
        return vm_fail(v, "a value of type '%s' has no length", kind_name((value_kind)in.kind));
    return value_int(length);
}

static value run_list(vm *v, value in, const arguments *a) {
    return take_arguments(v, a, "list", "", NULL) ? iterate_list(v, in) : value_none();
}

static value run_items(vm *v, value in, const arguments *a) {
    if (!take_arguments(v, a, "items", "", NULL)) return value_none();
    if (in.kind == VALUE_DICT) {
        in.kind = VALUE_VIEW;
        in.mark = VIEW_ITEMS;
    } else if (!is_undefined(in)) {
        return vm_fail(v, "'items' needs a dict, not '%s'", kind_name((value_kind)in.kind));
    }
    iterator *it = iterate(v, in);
    return it ? VALUE_OF(VALUE_ITERATOR, iterator, it) : value_none();
}

static value run_first(vm *v, value in, const arguments *a) {
    value item;
    if (!take_arguments(v, a, "first", "", NULL)) return value_none();
    iterator *it = iterate(v, in);
    if (it && iterate_next(v, it, &item)) return item;
    return undefined_hint("the first item of an empty sequence is undefined");
}

static value run_last(vm *v, value in, const arguments *a) {
    value item;
    if (!take_arguments(v, a, "last", "", NULL)) return value_none();
    if (in.kind == VALUE_ITERATOR) return vm_fail(v, "'last' needs a sequence; use 'list' before it");
    value from = is_text(in) ? iterate_list(v, in) : in;
    value back = vm_failed(v) ? from : reverse_value(v, from);
    if (vm_failed(v)) return value_none();
    return iterate_next(v, back.iterator, &item) ? item
                                                 : undefined_hint("the last item of an empty sequence is undefined");
}

static value run_reverse(vm *v, value in, const arguments *a) {
    return take_arguments(v, a, "reverse", "", NULL) ? reverse_value(v, in) : value_none();
}

static value run_default(vm *v, value in, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, "default", "default_value= boolean=", given)) return value_none();
    value other = given[0].kind == VALUE_MISSING ? VALUE_LITERAL("") : given[0];
    return is_undefined(in) || (value_truth(v, given[1]) && !value_truth(v, in)) ? other : in;
}

static value run_join(vm *v, value in, const arguments *a) {
    value given[2], item;
    if (!take_arguments(v, a, "join", "d= attribute=", given)) return value_none();
    value between = given[0].kind == VALUE_MISSING ? VALUE_LITERAL("") : value_string(v, given[0]);
    bool attribute = given[1].kind != VALUE_MISSING && given[1].kind != VALUE_NONE;
    iterator *it = vm_failed(v) ? NULL : iterate(v, in);
    buffer out = {0};
    for (bool first = true; it && iterate_next(v, it, &item) && !vm_failed(v); first = false) {
        if (attribute) item = attribute_path(v, item, given[1], (value){0});
        if (!first) buffer_add(&out, between.text, between.length);
        size_t before = out.count;
        print_value(v, item, &out);
        vm_charge(v, (between.length + out.count - before) / 64);
        if (out.count > CHAT_MAX_OUTPUT_BYTES) vm_fail_code(v, BRAID_LIMIT, "a text is too long");
    }
    return value_take_buffer(v, &out);
}

static value run_attr(vm *v, value in, const arguments *a) {
    value name;
    if (!take_arguments(v, a, "attr", "name", &name)) return value_none();
    if (!is_text(name)) return fail_argument(v, "attr", "a name");
    if (in.kind == VALUE_DICT && !method_name(VALUE_DICT, name)) return undefined_member(v, in, name);
    return get_attribute(v, in, name);
}

// ---- lazy filters

static value lazy(vm *v, iterator_kind kind, value in, iterator **out) {
    iterator *from = iterate(v, in), *it = from ? vm_take(v, sizeof *it) : NULL;
    if (!it) return value_none();
    it->kind = kind;
    it->from = from;
    *out = it;
    return VALUE_OF(VALUE_ITERATOR, iterator, it);
}

static const value *named(const arguments *a, const char *name) {
    for (uint32_t i = 0; i < a->named_count; i++)
        if (text_is(a->named[i].key, name)) return &a->named[i].value;
    return NULL;
}

static arguments rest_of(const arguments *a, uint32_t skip) {
    arguments rest = *a;
    rest.at += skip;
    rest.count -= skip;
    return rest;
}

static value run_map(vm *v, value in, const arguments *a) {
    iterator *it = NULL;
    const value *attribute = a->count == 0 ? named(a, "attribute") : NULL, *fallback = named(a, "default");
    if (!attribute && (a->count == 0 || !is_text(a->at[0])))
        return fail_argument(v, "map", "the name of a filter or an attribute");
    if (!value_truth(v, in) && in.kind != VALUE_ITERATOR && is_iterable(in)) return value_new_list(v, VALUE_LIST, 0);
    value out = lazy(v, attribute ? ITERATE_MAP_ATTRIBUTE : ITERATE_MAP, in, &it);
    if (!it) return out;
    if (attribute) {
        it->attribute = *attribute;
        if (fallback) it->fallback = *fallback;
    } else {
        it->name = a->at[0];
        it->arguments = rest_of(a, 1);
    }
    return out;
}

static value select_with(vm *v, value in, const arguments *a, bool wanted, bool attribute) {
    iterator *it = NULL;
    uint32_t skip = attribute;
    if (attribute && a->count == 0) return fail_argument(v, "selectattr", "the name of an attribute");
    if (!value_truth(v, in)) in = value_new_list(v, VALUE_LIST, 0);
    value out = vm_failed(v) ? in : lazy(v, ITERATE_SELECT, in, &it);
    if (!it) return out;
    it->wanted = wanted;
    if (attribute) it->attribute = a->at[0];
    if (a->count > skip) {
        it->name = a->at[skip];
        it->arguments = rest_of(a, skip + 1);
    }
    return out;
}

static value run_select(vm *v, value in, const arguments *a) { return select_with(v, in, a, true, false); }
static value run_reject(vm *v, value in, const arguments *a) { return select_with(v, in, a, false, false); }
static value run_selectattr(vm *v, value in, const arguments *a) { return select_with(v, in, a, true, true); }
static value run_rejectattr(vm *v, value in, const arguments *a) { return select_with(v, in, a, false, true); }

static value run_unique(vm *v, value in, const arguments *a) {
    value given[2];
    iterator *it = NULL;
    if (!take_arguments(v, a, "unique", "case_sensitive= attribute=", given)) return value_none();
    value out = lazy(v, ITERATE_UNIQUE, in, &it), seen = value_new_dict(v, 8);
    if (!it || vm_failed(v)) return value_none();
    it->plain = value_truth(v, given[0]);
    if (given[1].kind != VALUE_NONE) it->attribute = given[1];
    it->seen = seen.dict;
    return out;
}

static value run_batch(vm *v, value in, const arguments *a) {
    value given[2];
    iterator *it = NULL;
    if (!take_arguments(v, a, "batch", "linecount fill_with=", given)) return value_none();
    int64_t count = take_int(v, given[0], "batch", 0);
    if (count < 1 || count > 1 << 20) return fail_argument(v, "batch", "a positive number of items");
    value out = lazy(v, ITERATE_BATCH, in, &it);
    if (!it) return out;
    it->batch = (uint32_t)count;
    it->fallback = given[1];
    return out;
}

static value run_slice(vm *v, value in, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, "slice", "slices fill_with=", given)) return value_none();
    int64_t slices = take_int(v, given[0], "slice", 0);
    if (slices < 1 || slices > 1 << 20) return fail_argument(v, "slice", "a positive number of slices");
    value items = iterate_list(v, in), out = value_new_list(v, VALUE_LIST, (uint32_t)slices);
    if (vm_failed(v)) return value_none();
    uint32_t each = items.list->count / (uint32_t)slices, extra = items.list->count % (uint32_t)slices, at = 0;
    bool fill = given[1].kind != VALUE_MISSING && given[1].kind != VALUE_NONE;
    for (uint32_t i = 0; i < (uint32_t)slices && !vm_failed(v); i++) {
        uint32_t count = each + (i < extra);
        bool more = fill && i >= extra;
        value part = value_new_list(v, VALUE_LIST, count + more);
        if (vm_failed(v)) return part;
        if (count > 0) memcpy(part.list->items, items.list->items + at, count * sizeof part);
        if (more) part.list->items[count] = given[1];
        out.list->items[i] = part;
        at += count;
    }
    iterator *it = iterate(v, out);
    return it ? VALUE_OF(VALUE_ITERATOR, iterator, it) : value_none();
}

// ---- order

typedef struct sorting {
    value attribute;  // MISSING or NONE: the item itself
    bool plain, reverse;
} sorting;

static value folded(vm *v, value x, bool plain) { return !plain && is_text(x) ? text_case(v, x, CASE_LOWER) : x; }

// The key of an item; several attributes separated by commas make a list.
static value sort_key(vm *v, value item, const sorting *s) {
    value path = s->attribute;
    if (path.kind == VALUE_MISSING || path.kind == VALUE_NONE) return folded(v, item, s->plain);
    if (!is_text(path) || path.length == 0 || !memchr(path.text, ',', path.length))
        return folded(v, attribute_path(v, item, path, (value){0}), s->plain);
    value parts = text_split(v, path, VALUE_LITERAL(","), -1, false);
    for (uint32_t i = 0; !vm_failed(v) && i < parts.list->count; i++)
        parts.list->items[i] = folded(v, attribute_path(v, item, parts.list->items[i], (value){0}), s->plain);
    return parts;
}

static void merge(vm *v, dict_entry *e, dict_entry *scratch, uint32_t middle, uint32_t count, bool reverse) {
    uint32_t a = 0, b = middle, to = 0;
    while (a < middle && b < count && !vm_failed(v)) {
        int order = value_order(v, e[b].key, e[a].key);
        bool second = reverse ? order > 0 : order < 0;
        scratch[to++] = e[second ? b++ : a++];
    }
    while (a < middle) scratch[to++] = e[a++];
    while (b < count) scratch[to++] = e[b++];
    memcpy(e, scratch, count * sizeof *e);
}

// Stable; with `reverse` equal items keep their order, too. The depth is the logarithm of the count.
static void merge_sort(vm *v, dict_entry *e, dict_entry *scratch, uint32_t count, bool reverse) {
    if (count < 2 || vm_failed(v)) return;
    merge_sort(v, e, scratch, count / 2, reverse);
    merge_sort(v, e + count / 2, scratch, count - count / 2, reverse);
    merge(v, e, scratch, count / 2, count, reverse);
}

static value sort_items(vm *v, value items, const sorting *s) {
    uint32_t count = items.list->count;
    dict_entry *e = vm_take(v, 2 * (size_t)count * sizeof *e);
    for (uint32_t i = 0; e && i < count && !vm_failed(v); i++)
        e[i] = (dict_entry){sort_key(v, items.list->items[i], s), items.list->items[i]};
    if (vm_failed(v)) return value_none();
    merge_sort(v, e, e + count, count, s->reverse);
    for (uint32_t i = 0; i < count; i++) items.list->items[i] = e[i].value;
    return items;
}

static value run_sort(vm *v, value in, const arguments *a) {
    value given[3];
    if (!take_arguments(v, a, "sort", "reverse= case_sensitive= attribute=", given)) return value_none();
    sorting s = {.reverse = value_truth(v, given[0]), .plain = value_truth(v, given[1]), .attribute = given[2]};
    value items = iterate_list(v, in);
    return vm_failed(v) ? items : sort_items(v, items, &s);
}

static value run_dictsort(vm *v, value in, const arguments *a) {
    value given[3];
    if (!take_arguments(v, a, "dictsort", "case_sensitive= by= reverse=", given)) return value_none();
    if (in.kind != VALUE_DICT) return fail_argument(v, "dictsort", "a dict");
    bool by_value = text_is(given[1], "value");
    if (!by_value && given[1].kind != VALUE_MISSING && !text_is(given[1], "key"))
        return fail_argument(v, "dictsort", "'key' or 'value' to sort by");
    sorting s = {
        .plain = value_truth(v, given[0]), .reverse = value_truth(v, given[2]), .attribute = value_int(by_value)};
    in.kind = VALUE_VIEW;
    in.mark = VIEW_ITEMS;
    value items = iterate_list(v, in);
    return vm_failed(v) ? items : sort_items(v, items, &s);
}

static value extreme(vm *v, value in, const arguments *a, const char *name, bool most) {
    value given[2], item, best = undefined_hint("the smallest or largest of an empty sequence is undefined"), key = {0};
    if (!take_arguments(v, a, name, "case_sensitive= attribute=", given)) return value_none();
    sorting s = {.plain = value_truth(v, given[0]), .attribute = given[1]};
    iterator *it = iterate(v, in);
    while (it && iterate_next(v, it, &item) && !vm_failed(v)) {
        value k = sort_key(v, item, &s);
        int order = key.kind == VALUE_MISSING ? 0 : value_order(v, k, key);
        if (key.kind != VALUE_MISSING && (most ? order <= 0 : order >= 0)) continue;
        best = item;
        key = k;
    }
    return best;
}

static value run_min(vm *v, value in, const arguments *a) { return extreme(v, in, a, "min", false); }
static value run_max(vm *v, value in, const arguments *a) { return extreme(v, in, a, "max", true); }

static value run_sum(vm *v, value in, const arguments *a) {
    value given[2], item;
    if (!take_arguments(v, a, "sum", "attribute= start=", given)) return value_none();
    value sum = given[1].kind == VALUE_MISSING ? value_int(0) : given[1];
    bool attribute = given[0].kind != VALUE_MISSING && given[0].kind != VALUE_NONE;
    if (is_text(sum)) return fail_argument(v, "sum", "numbers; 'join' is for texts");
    iterator *it = iterate(v, in);
    while (it && iterate_next(v, it, &item) && !vm_failed(v)) {
        if (attribute) item = attribute_path(v, item, given[0], (value){0});
        sum = operate(v, OP_ADD, sum, item);
    }
    return sum;
}

const filter_entry filters_of_lists[] = {{"length", run_length},
                                         {"count", run_length},
                                         {"list", run_list},
                                         {"items", run_items},
                                         {"first", run_first},
                                         {"last", run_last},
                                         {"reverse", run_reverse},
                                         {"default", run_default},
                                         {"d", run_default},
                                         {"join", run_join},
                                         {"attr", run_attr},
                                         {"map", run_map},
                                         {"select", run_select},
                                         {"reject", run_reject},
                                         {"selectattr", run_selectattr},
                                         {"rejectattr", run_rejectattr},
                                         {"unique", run_unique},
                                         {"batch", run_batch},
                                         {"slice", run_slice},
                                         {"sort", run_sort},
                                         {"dictsort", run_dictsort},
                                         {"min", run_min},
                                         {"max", run_max},
                                         {"sum", run_sum},
                                         {"tojson", filter_json},
                                         {NULL, NULL}};
