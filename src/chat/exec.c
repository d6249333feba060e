// Statements.
#include "chat/inside.h"

// ---- scopes

scope *scope_open(vm *v, scope *parent) {
    scope *s = vm_take(v, sizeof *s);
    if (s) s->parent = parent;
    return s;
}

static binding *own_binding(scope *s, uint32_t name) {
    for (binding *b = s->bindings; b; b = b->next)
        if (b->name == name) return b;
    return NULL;
}

void scope_set(vm *v, uint32_t name, value x) {
    if (vm_failed(v)) return;
    binding *b = own_binding(v->scope, name);
    if (!b) {
        b = vm_take(v, sizeof *b);
        if (!b) return;
        b->name = name;
        b->next = v->scope->bindings;
        v->scope->bindings = b;
    }
    b->value = x;
}

// ---- assignment

static void assign_items(vm *v, const node *target, value x) {
    iterator *it = iterate(v, x);
    value item;
    for (const node *n = target->list; n && !vm_failed(v); n = n->next) {
        if (it && iterate_next(v, it, &item))
            assign(v, n, item);
        else
            vm_fail(v, "there are not enough values to assign");
    }
    if (!vm_failed(v) && iterate_next(v, it, &item)) vm_fail(v, "there are too many values to assign");
}

static void assign_attribute(vm *v, const node *target, value x) {
    node name = {.kind = NODE_NAME, .line = target->line, .name = target->name};
    value holder = evaluate(v, &name);
    if (vm_failed(v)) return;
    if (holder.kind != VALUE_NAMESPACE)
        vm_fail(v, "only attributes of a namespace can be assigned, not those of '%s'",
                kind_name((value_kind)holder.kind));
    else if (target->text.text[0] == '_')
        vm_fail(v, "an attribute of a namespace may not begin with '_'");
    else
        dict_put(v, holder.dict, target->text, x);
}

void assign(vm *v, const node *target, value x) {
    if (vm_failed(v)) return;
    v->line = target->line;
    if (target->kind == NODE_NAME)
        scope_set(v, target->name, x);
    else if (target->kind == NODE_TUPLE)
        assign_items(v, target, x);
    else
        assign_attribute(v, target, x);
}

// ---- bodies that become texts

// Runs the body in a scope of its own, and returns what it writes.
static value capture(vm *v, const node *list, scope *inside) {
    buffer out = {0}, *outer = v->out;
    scope *outside = v->scope;
    v->out = &out;
    v->scope = inside;
    if (!vm_failed(v)) execute(v, list);
    v->out = outer;
    v->scope = outside;
    v->written -= out.count;
    return value_take_buffer(v, &out);
}

static void write_value(vm *v, value x) {
    if (vm_failed(v)) return;
    x = value_string(v, x);
    if (!vm_failed(v)) vm_write(v, x.text, x.length);
}

static value through_filters(vm *v, const node *filter, value text) {
    if (!filter || vm_failed(v)) return text;
    if (filter->a) text = through_filters(v, filter->a, text);
    arguments a;
    v->line = filter->line;
    return evaluate_arguments(v, filter->list, &a) ? v->filter(v, filter->text, text, &a) : value_none();
}

static void run_filter_block(vm *v, const node *n) {
    value text = capture(v, n->list, scope_open(v, v->scope));
    write_value(v, through_filters(v, n->a, text));
}

static void run_set_block(vm *v, const node *n) {
    value text = capture(v, n->list, scope_open(v, v->scope));
    assign(v, n->a, through_filters(v, n->b, text));
}

static void run_generation(vm *v, const node *n) { write_value(v, capture(v, n->list, scope_open(v, v->scope))); }

static void run_with(vm *v, const node *n) {
    scope *outside = v->scope, *inside = scope_open(v, outside);
    for (const node *set = n->a; set && !vm_failed(v); set = set->next) {
        value x = evaluate(v, set->b);
        v->scope = inside;
        assign(v, set->a, x);
        v->scope = outside;
    }
    v->scope = inside;
    if (!vm_failed(v)) execute(v, n->list);
    v->scope = outside;
}

// ---- macros

static value new_macro(vm *v, const node *n, scope *s) {
    macro *m = vm_take(v, sizeof *m);
    if (!m) return value_none();
    *m = (macro){n, s, n->text};
    return VALUE_OF(VALUE_MACRO, macro, m);
}

static const value *take_named(const arguments *a, value name, bool *used) {
    for (uint32_t i = 0; i < a->named_count; i++) {
        value key = a->named[i].key;
        if (key.length != name.length || memcmp(key.text, name.text, key.length) != 0) continue;
        used[i] = true;
        return &a->named[i].value;
    }
    return NULL;
}

// Parameters in their order; a default may use those before it.
static uint32_t bind_parameters(vm *v, const macro *m, const arguments *a, bool *used) {
    uint32_t i = 0;
    for (const node *p = m->node->a; p && !vm_failed(v); p = p->next, i++) {
        const value *by_name = i < a->count ? NULL : take_named(a, p->text, used);
        value x = i < a->count ? a->at[i] : by_name ? *by_name : p->a ? evaluate(v, p->a) : undefined_name(v, p->text);
        scope_set(v, p->name, x);
    }
    return i;
}

static void bind_rest(vm *v, const macro *m, const arguments *a, uint32_t parameters, bool *used) {
    unsigned flags = m->node->flags;
    uint32_t extra = a->count > parameters ? a->count - parameters : 0;
    if (flags & MACRO_CALLER && !own_binding(v->scope, ID_CALLER)) {
        const value *caller = take_named(a, VALUE_LITERAL("caller"), used);
        scope_set(v, ID_CALLER, caller ? *caller : undefined_name(v, VALUE_LITERAL("caller")));
    }
    if (flags & MACRO_KWARGS) {
        value rest = value_new_dict(v, a->named_count);
        for (uint32_t i = 0; i < a->named_count && !vm_failed(v); i++) {
            if (!used[i]) dict_put(v, rest.dict, a->named[i].key, a->named[i].value);
            used[i] = true;
        }
        scope_set(v, ID_KWARGS, rest);
    }
    if (flags & MACRO_VARARGS) {
        value rest = value_new_list(v, VALUE_TUPLE, extra);
        for (uint32_t i = 0; i < extra && !vm_failed(v); i++) rest.list->items[i] = a->at[parameters + i];
        scope_set(v, ID_VARARGS, rest);
    } else if (extra > 0) {
        vm_fail(v, "the macro '%.*s' takes at most %u arguments", (int)m->name.length, m->name.text,
                (unsigned)parameters);
    }
    for (uint32_t i = 0; i < a->named_count && !vm_failed(v); i++)
        if (!used[i])
            vm_fail(v, "the macro '%.*s' has no argument '%.*s'", (int)m->name.length, m->name.text,
                    (int)a->named[i].key.length, a->named[i].key.text);
}

value call_macro(vm *v, const macro *m, const arguments *a) {
    scope *outside = v->scope, *inside = scope_open(v, m->scope);
    bool *used = vm_take(v, a->named_count + 1);
    if (vm_failed(v)) return value_none();
    v->scope = inside;
    uint32_t parameters = bind_parameters(v, m, a, used);
    if (!vm_failed(v)) bind_rest(v, m, a, parameters, used);
    v->scope = outside;
    return capture(v, m->node->list, inside);
}

static void run_call_block(vm *v, const node *n) {
    arguments a;
    value callee = evaluate(v, n->b->a);
    if (!evaluate_arguments(v, n->b->list, &a)) return;
    dict_entry *more = vm_take(v, (a.named_count + 1) * sizeof *more);
    if (!more) return;
    if (a.named_count > 0) memcpy(more, a.named, a.named_count * sizeof *more);
    more[a.named_count++] = (dict_entry){VALUE_LITERAL("caller"), new_macro(v, n->a, v->scope)};
    a.named = more;
    write_value(v, call_value(v, callee, &a));
}

// ---- loops

bool loop_keeps(vm *v, const node *condition, scope *s, const node *target, value item) {
    scope *outside = v->scope;
    v->scope = scope_open(v, s);
    assign(v, target, item);
    bool keeps = value_truth(v, evaluate(v, condition));
    v->scope = outside;
    return keeps && !vm_failed(v);
}

static bool start_loop(vm *v, const node *n, scope *outside, value source, loop *l) {
    iterator *it = iterate(v, source);
    if (it && n->c) {
        iterator *from = it;
        it = vm_take(v, sizeof *it);
        if (!it) return false;
        *it = (iterator){.kind = ITERATE_LOOP, .from = from, .condition = n->c, .target = n->a, .scope = outside};
        source = VALUE_OF(VALUE_ITERATOR, iterator, it);
    }
    l->items = it;
    l->source = source;
    l->node = n;
    l->scope = outside;
    l->index0 = -1;
    l->length = -1;
    return it != NULL;
}

// Each pass has a scope of its own, in which `loop` and the targets are set.
static void run_passes(vm *v, const node *n, loop *l) {
    value item;
    bool any = false;
    while (!vm_failed(v) && loop_next(v, l, &item)) {
        any = true;
        v->scope = scope_open(v, l->scope);
        if (!v->scope) break;
        scope_set(v, ID_LOOP, VALUE_OF(VALUE_LOOP, loop, l));
        assign(v, n->a, item);
        execute(v, n->list);
        bool stop = v->flow == FLOW_BREAK;
        v->flow = FLOW_ON;
        if (stop) break;
    }
    if (!any && n->d && !vm_failed(v)) {
        v->scope = scope_open(v, l->scope);
        if (v->scope) execute(v, n->d->list);
    }
}

value run_loop(vm *v, const node *n, scope *outside, value source, int64_t depth0) {
    scope *before = v->scope;
    buffer out = {0}, *outer = v->out;
    bool captures = n->flags & FOR_RECURSIVE;
    loop *l = vm_take(v, sizeof *l);
    if (!l || !start_loop(v, n, outside, source, l)) return value_none();
    l->depth0 = depth0;
    if (captures) v->out = &out;
    if (++v->depth > CHAT_MAX_DEPTH) vm_fail_code(v, BRAID_LIMIT, "the template calls itself too deeply");
    run_passes(v, n, l);
    v->depth--;
    v->out = outer;
    v->scope = before;
    v->written -= out.count;
    return captures ? value_take_buffer(v, &out) : VALUE_LITERAL("");
}

static void run_for(vm *v, const node *n) {
    value source = evaluate(v, n->b);
    if (!vm_failed(v)) write_value(v, run_loop(v, n, v->scope, source, 0));
}

// ---- the others

static void run_if(vm *v, const node *n) {
    for (; n && n->kind == NODE_IF; n = n->b) {
        if (!value_truth(v, evaluate(v, n->a))) continue;
        if (!vm_failed(v)) execute(v, n->list);
        return;
    }
    if (n && !vm_failed(v)) execute(v, n->list);
}

static void run_output(vm *v, const node *n) {
    for (const node *item = n->list; item && !vm_failed(v); item = item->next) write_value(v, evaluate(v, item));
}

static void execute_one(vm *v, const node *n) {
    switch ((node_kind)n->kind) {
    case NODE_DATA: vm_write(v, n->text.text, n->text.length); break;
    case NODE_OUTPUT: run_output(v, n); break;
    case NODE_IF: run_if(v, n); break;
    case NODE_FOR: run_for(v, n); break;
    case NODE_SET: assign(v, n->a, evaluate(v, n->b)); break;
    case NODE_SET_BLOCK: run_set_block(v, n); break;
    case NODE_WITH: run_with(v, n); break;
    case NODE_MACRO: scope_set(v, n->name, new_macro(v, n, v->scope)); break;
    case NODE_CALL_BLOCK: run_call_block(v, n); break;
    case NODE_FILTER_BLOCK: run_filter_block(v, n); break;
    case NODE_GENERATION: run_generation(v, n); break;
    case NODE_BREAK: v->flow = FLOW_BREAK; break;
    case NODE_CONTINUE: v->flow = FLOW_CONTINUE; break;
    default: BRAID_ASSERT(!"a node that is no statement");
    }
}

void execute(vm *v, const node *list) {
    if (++v->depth > CHAT_MAX_DEPTH) vm_fail_code(v, BRAID_LIMIT, "the template calls itself too deeply");
    for (; list && v->flow == FLOW_ON && vm_charge(v, 1); list = list->next) {
        v->line = list->line;
        execute_one(v, list);
    }
    v->depth--;
}
