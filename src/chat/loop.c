// The variable `loop`.
#include "chat/inside.h"

bool loop_next(vm *v, loop *l, value *out) {
    if (l->after.kind != VALUE_MISSING) {
        *out = l->after;
        l->after = (value){0};
    } else if (!iterate_next(v, l->items, out)) {
        return false;
    }
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return true;
}

static bool peek(vm *v, loop *l, value *out) {
    if (l->after.kind == VALUE_MISSING && !iterate_next(v, l->items, &l->after)) return false;
    *out = l->after;
    return true;
}

// An iterable without a length is read to its end.
static int64_t loop_length(vm *v, loop *l) {
    uint32_t count;
    if (l->length >= 0) return l->length;
    if (value_length(v, l->source, &count)) return l->length = count;
    value rest = iterate_list(v, VALUE_OF(VALUE_ITERATOR, iterator, l->items));
    if (vm_failed(v)) return 0;
    l->items = iterate(v, rest);
    return l->length = rest.list->count + l->index0 + 1 + (l->after.kind != VALUE_MISSING);
}

value loop_attribute(vm *v, loop *l, value name) {
    value item;
    if (text_is(name, "index")) return value_int(l->index0 + 1);
    if (text_is(name, "index0")) return value_int(l->index0);
    if (text_is(name, "first")) return value_bool(l->index0 == 0);
    if (text_is(name, "last")) return value_bool(!peek(v, l, &item));
    if (text_is(name, "length")) return value_int(loop_length(v, l));
    if (text_is(name, "revindex")) return value_int(loop_length(v, l) - l->index0);
    if (text_is(name, "revindex0")) return value_int(loop_length(v, l) - l->index0 - 1);
    if (text_is(name, "depth")) return value_int(l->depth0 + 1);
    if (text_is(name, "depth0")) return value_int(l->depth0);
    if (text_is(name, "previtem")) return l->index0 == 0 ? undefined_hint("there is no previous item") : l->before;
    if (text_is(name, "nextitem")) return peek(v, l, &item) ? item : undefined_hint("there is no next item");
    const char *method = text_is(name, "cycle") ? "cycle" : text_is(name, "changed") ? "changed" : NULL;
    value_method *m = method ? vm_take(v, sizeof *m) : NULL;
    if (!m) return (value){0};
    *m = (value_method){VALUE_OF(VALUE_LOOP, loop, l), method};
    return VALUE_OF(VALUE_METHOD, method, m);
}

value call_loop_method(vm *v, loop *l, const char *name, const arguments *a) {
    if (a->named_count > 0) return vm_fail(v, "'loop.%s' has no arguments with names", name);
    if (strcmp(name, "cycle") == 0) {
        if (a->count == 0) return vm_fail(v, "'loop.cycle' needs values");
        return a->at[l->index0 % a->count];
    }
    value now = value_new_list(v, VALUE_TUPLE, a->count);
    if (vm_failed(v)) return now;
    if (a->count > 0) memcpy(now.list->items, a->at, a->count * sizeof *a->at);
    bool same = l->changed.kind != VALUE_MISSING && value_equal(v, l->changed, now);
    l->changed = now;
    return value_bool(!same);
}
