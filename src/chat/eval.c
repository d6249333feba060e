// Expressions.
#include "chat/inside.h"

static const binding *find_binding(vm *v, uint32_t name) {
    for (const scope *s = v->scope; s; s = s->parent) {
        for (const binding *b = s->bindings; b; b = b->next)
            if (b->name == name) return b;
        v->steps++;
    }
    return NULL;
}

static value evaluate_name(vm *v, const node *n) {
    const binding *b = find_binding(v, n->name);
    value x;
    if (b) return b->value;
    value name = v->template->names[n->name];
    return find_global(name, &x) ? x : undefined_name(v, name);
}

static uint32_t count_list(const node *list) {
    uint32_t count = 0;
    for (; list; list = list->next) count++;
    return count;
}

static value evaluate_list(vm *v, const node *n) {
    value list = value_new_list(v, n->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE, count_list(n->list));
    uint32_t i = 0;
    for (const node *item = n->list; item && !vm_failed(v); item = item->next)
        list.list->items[i++] = evaluate(v, item);
    return list;
}

static value evaluate_dict(vm *v, const node *n) {
    value d = value_new_dict(v, count_list(n->list) / 2);
    for (const node *key = n->list; key && !vm_failed(v); key = key->next->next) {
        value k = evaluate(v, key), x = evaluate(v, key->next);
        if (!vm_failed(v)) dict_put(v, d.dict, k, x);
    }
    return d;
}

static value evaluate_optional(vm *v, const node *n) { return n ? evaluate(v, n) : value_none(); }

static value evaluate_item(vm *v, const node *n) {
    value x = evaluate(v, n->a);
    if (n->b->kind != NODE_SLICE) return get_item(v, x, evaluate(v, n->b));
    value start = evaluate_optional(v, n->b->a), stop = evaluate_optional(v, n->b->b),
          step = evaluate_optional(v, n->b->c);
    return get_slice(v, x, start, stop, step);
}

// ---- calls

enum { MOST_ARGUMENTS = 4096 };

static bool spread(vm *v, const node *n, value x, arguments *out, uint32_t most) {
    if (n->kind == NODE_SPREAD) {
        iterator *it = iterate(v, x);
        value item;
        while (it && iterate_next(v, it, &item)) {
            if (out->count == most) return vm_fail(v, "a call has too many arguments"), false;
            out->at[out->count++] = item;
        }
        return !vm_failed(v);
    }
    if (x.kind != VALUE_DICT) return vm_fail(v, "'**' needs a dict, not '%s'", kind_name((value_kind)x.kind)), false;
    for (uint32_t i = 0; i < x.dict->count; i++) {
        if (out->named_count == most || !is_text(x.dict->entries[i].key))
            return vm_fail(v, "the arguments of '**' are not texts, or too many"), false;
        out->named[out->named_count++] = x.dict->entries[i];
    }
    return true;
}

// The largest number of arguments that the list may become.
static uint32_t argument_room(const node *list) {
    for (const node *n = list; n; n = n->next)
        if (n->kind == NODE_SPREAD || n->kind == NODE_SPREAD_DICT) return MOST_ARGUMENTS;
    return count_list(list);
}

bool evaluate_arguments(vm *v, const node *list, arguments *out) {
    *out = (arguments){0};
    if (!list) return !vm_failed(v);
    uint32_t most = argument_room(list);
    out->at = vm_take(v, most * sizeof *out->at);
    out->named = vm_take(v, most * sizeof *out->named);
    for (const node *n = list; n && !vm_failed(v); n = n->next) {
        bool plain = n->kind != NODE_KEYWORD && n->kind != NODE_SPREAD && n->kind != NODE_SPREAD_DICT;
        value x = evaluate(v, plain ? n : n->a);
        if (vm_failed(v)) break;
        if (plain && out->count < most)
            out->at[out->count++] = x;
        else if (n->kind == NODE_KEYWORD && out->named_count < most)
            out->named[out->named_count++] = (dict_entry){n->text, x};
        else if (!plain && n->kind != NODE_KEYWORD)
            spread(v, n, x, out, most);
    }
    return !vm_failed(v);
}

value call_value(vm *v, value callee, const arguments *a) {
    if (vm_failed(v)) return value_none();
    switch (callee.kind) {
    case VALUE_MACRO: return call_macro(v, callee.macro, a);
    case VALUE_FUNCTION: return call_global(v, callee, a);
    case VALUE_METHOD: return call_method(v, callee.method, a);
    case VALUE_UNDEFINED: return fail_undefined(v, callee);
    case VALUE_LOOP:
        if (!(callee.loop->node->flags & FOR_RECURSIVE))
            return vm_fail(v, "the loop is not 'recursive', so it cannot be called");
        if (a->count != 1 || a->named_count > 0) return vm_fail(v, "a recursive loop is called with one iterable");
        return run_loop(v, callee.loop->node, callee.loop->scope, a->at[0], callee.loop->depth0 + 1);
    default: return vm_fail(v, "a value of type '%s' cannot be called", kind_name((value_kind)callee.kind));
    }
}

static value evaluate_call(vm *v, const node *n) {
    arguments a;
    value callee = evaluate(v, n->a);
    return evaluate_arguments(v, n->list, &a) ? call_value(v, callee, &a) : value_none();
}

static value evaluate_filter(vm *v, const node *n) {
    arguments a;
    value in = evaluate(v, n->a);
    return evaluate_arguments(v, n->list, &a) ? v->filter(v, n->text, in, &a) : value_none();
}

static value evaluate_test(vm *v, const node *n) {
    arguments a;
    value x = evaluate(v, n->a);
    return evaluate_arguments(v, n->list, &a) ? value_bool(v->test(v, n->text, x, &a)) : value_none();
}

// ---- operators

static value evaluate_concat(vm *v, const node *n) {
    buffer out = {0};
    for (const node *item = n->list; item && !vm_failed(v); item = item->next) print_value(v, evaluate(v, item), &out);
    return value_take_buffer(v, &out);
}

static value evaluate_compare(vm *v, const node *n) {
    value a = evaluate(v, n->a);
    for (const node *operand = n->list; operand && !vm_failed(v); operand = operand->next) {
        value b = evaluate(v, operand->a);
        if (!compare(v, (operator_kind)operand->op, a, b)) return value_bool(false);
        a = b;
    }
    return value_bool(true);
}

static value evaluate_sign(vm *v, const node *n) {
    value x = evaluate(v, n->a);
    if (is_undefined(x)) return fail_undefined(v, x);
    if (!is_number(x)) return vm_fail(v, "a value of type '%s' has no sign", kind_name((value_kind)x.kind));
    if (n->kind == NODE_PLUS) return x.kind == VALUE_BOOL ? value_int(x.truth) : x;
    return x.kind == VALUE_FLOAT ? value_float(-x.real) : operate(v, OP_SUB, value_int(0), x);
}

static value evaluate_condition(vm *v, const node *n) {
    if (value_truth(v, evaluate(v, n->a))) return evaluate(v, n->b);
    return n->c ? evaluate(v, n->c) : undefined_hint("a condition without 'else' was false, and its value was used");
}

static value evaluate_logic(vm *v, const node *n) {
    value a = evaluate(v, n->a);
    return value_truth(v, a) == (n->kind == NODE_AND) ? evaluate(v, n->b) : a;
}

static value evaluate_inside(vm *v, const node *n) {
    switch ((node_kind)n->kind) {
    case NODE_CONST: return n->text;
    case NODE_NAME: return evaluate_name(v, n);
    case NODE_LIST:
    case NODE_TUPLE: return evaluate_list(v, n);
    case NODE_DICT: return evaluate_dict(v, n);
    case NODE_ATTRIBUTE: return get_attribute(v, evaluate(v, n->a), n->text);
    case NODE_ITEM: return evaluate_item(v, n);
    case NODE_CALL: return evaluate_call(v, n);
    case NODE_FILTER: return evaluate_filter(v, n);
    case NODE_TEST: return evaluate_test(v, n);
    case NODE_NOT: return value_bool(!value_truth(v, evaluate(v, n->a)));
    case NODE_NEGATE:
    case NODE_PLUS: return evaluate_sign(v, n);
    case NODE_AND:
    case NODE_OR: return evaluate_logic(v, n);
    case NODE_BINARY: {
        value a = evaluate(v, n->a), b = evaluate(v, n->b);
        return operate(v, (operator_kind)n->op, a, b);
    }
    case NODE_CONCAT: return evaluate_concat(v, n);
    case NODE_COMPARE: return evaluate_compare(v, n);
    case NODE_CONDITION: return evaluate_condition(v, n);
    default: BRAID_ASSERT(!"a node that is no expression"); return value_none();
    }
}

value evaluate(vm *v, const node *n) {
    if (vm_failed(v)) return value_none();
    uint32_t line = v->line;
    v->line = n->line;
    if (++v->depth > CHAT_MAX_DEPTH) vm_fail_code(v, BRAID_LIMIT, "the template calls itself too deeply");
    value x = vm_charge(v, 1) ? evaluate_inside(v, n) : value_none();
    v->depth--;
    v->line = line;
    return x;
}
