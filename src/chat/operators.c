// Operators on values.
#include "chat/inside.h"

#include <math.h>

static const char *const signs[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

static value fail_types(vm *v, operator_kind op, value a, value b) {
    if (is_undefined(a) || is_undefined(b)) return fail_undefined(v, is_undefined(a) ? a : b);
    return vm_fail(v, "'%s' is not possible for '%s' and '%s'", signs[op], kind_name((value_kind)a.kind),
                   kind_name((value_kind)b.kind));
}

// ---- numbers

static int64_t whole(value x) { return x.kind == VALUE_BOOL ? x.truth : x.integer; }

static value overflow(vm *v) { return vm_fail(v, "an integer leaves 64 bits, which is not supported"); }

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static value power(vm *v, int64_t a, int64_t b) {
    if (b < 0) return a == 0 ? vm_fail(v, "division by zero") : value_float(pow((double)a, (double)b));
    int64_t result = 1;
    while (b > 0) {
        if ((b & 1) && __builtin_mul_overflow(result, a, &result)) return overflow(v);
        b >>= 1;
        if (b > 0 && __builtin_mul_overflow(a, a, &a)) return overflow(v);
    }
    return value_int(result);
}

static value integers(vm *v, operator_kind op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool lost = false;
    if ((op == OP_FLOORDIV || op == OP_MOD || op == OP_DIV) && b == 0) return vm_fail(v, "division by zero");
    if (b == -1 && (op == OP_FLOORDIV || op == OP_MOD)) {
        if (op == OP_MOD) return value_int(0);
        return a == INT64_MIN ? overflow(v) : value_int(-a);
    }
    switch (op) {
    case OP_ADD: lost = __builtin_add_overflow(a, b, &result); break;
    case OP_SUB: lost = __builtin_sub_overflow(a, b, &result); break;
    case OP_MUL: lost = __builtin_mul_overflow(a, b, &result); break;
    case OP_DIV: return value_float((double)a / (double)b);
    case OP_FLOORDIV: result = floor_divide(a, b); break;
    case OP_MOD: result = a - floor_divide(a, b) * b; break;
    default: return power(v, a, b);
    }
    return lost ? overflow(v) : value_int(result);
}

static value reals(vm *v, operator_kind op, double a, double b) {
    if ((op == OP_FLOORDIV || op == OP_MOD || op == OP_DIV) && b == 0) return vm_fail(v, "division by zero");
    double rest = fmod(a, b == 0 ? 1 : b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    switch (op) {
    case OP_ADD: return value_float(a + b);
    case OP_SUB: return value_float(a - b);
    case OP_MUL: return value_float(a * b);
    case OP_DIV: return value_float(a / b);
    case OP_FLOORDIV: return value_float(floor((a - rest) / b + 0.5));
    case OP_MOD: return value_float(rest == 0 ? copysign(0, b) : rest);
    default:
        if (a < 0 && b != floor(b)) return vm_fail(v, "a complex number is not supported");
        return a == 0 && b < 0 ? vm_fail(v, "division by zero") : value_float(pow(a, b));
    }
}

// ---- sequences

static value add_texts(vm *v, value a, value b) {
    bool mark = a.mark || b.mark;  // then the other one is escaped, as Markup of Python does
    if (mark && !a.mark) a = text_escape(v, a);
    if (mark && !b.mark) b = text_escape(v, b);
    if (vm_failed(v)) return value_none();
    if ((uint64_t)a.length + b.length > CHAT_MAX_OUTPUT_BYTES)
        return vm_fail_code(v, BRAID_LIMIT, "a text is too long");
    char *at = vm_take(v, (size_t)a.length + b.length + 1);
    if (!at) return value_none();
    if (a.length > 0) memcpy(at, a.text, a.length);
    if (b.length > 0) memcpy(at + a.length, b.text, b.length);
    value sum = value_text(at, (size_t)a.length + b.length);
    sum.mark = mark;
    return sum;
}

value add_values(vm *v, value a, value b) {
    if (is_text(a) && is_text(b)) return add_texts(v, a, b);
    if (!is_list(a) || a.kind != b.kind) return fail_types(v, OP_ADD, a, b);
    value sum = value_new_list(v, (value_kind)a.kind, a.list->count + b.list->count);
    if (vm_failed(v)) return sum;
    if (a.list->count > 0) memcpy(sum.list->items, a.list->items, a.list->count * sizeof a);
    if (b.list->count > 0) memcpy(sum.list->items + a.list->count, b.list->items, b.list->count * sizeof b);
    return sum;
}

static value repeat(vm *v, value x, int64_t times) {
    if (times < 0) times = 0;
    uint64_t unit = is_text(x) ? x.length : x.list->count;
    if (unit > 0 && (uint64_t)times > CHAT_MAX_OUTPUT_BYTES / 16 / unit)
        return vm_fail_code(v, BRAID_LIMIT, "a repeated value is too long");
    if (unit == 0) times = 0;
    if (!is_text(x)) {
        value list = value_new_list(v, (value_kind)x.kind, (uint32_t)(unit * (uint64_t)times));
        for (int64_t i = 0; i < times && !vm_failed(v); i++)
            memcpy(list.list->items + (uint64_t)i * unit, x.list->items, unit * sizeof x);
        return list;
    }
    if (x.mark) return fail_types(v, OP_MUL, x, value_int(times));
    char *at = vm_take(v, unit * (uint64_t)times + 1);
    for (int64_t i = 0; at && i < times; i++) memcpy(at + (uint64_t)i * unit, x.text, unit);
    return value_text(at, at ? unit * (uint64_t)times : 0);
}

static bool is_whole(value x) { return x.kind == VALUE_BOOL || x.kind == VALUE_INT; }

value operate(vm *v, operator_kind op, value a, value b) {
    if (vm_failed(v)) return value_none();
    if (is_whole(a) && is_whole(b)) return integers(v, op, whole(a), whole(b));
    if (is_number(a) && is_number(b)) return reals(v, op, value_real(a), value_real(b));
    if (op == OP_ADD) return add_values(v, a, b);
    if (op == OP_MUL && (is_text(a) || is_list(a)) && is_whole(b)) return repeat(v, a, whole(b));
    if (op == OP_MUL && (is_text(b) || is_list(b)) && is_whole(a)) return repeat(v, b, whole(a));
    if (op == OP_MOD && is_text(a) && !is_undefined(b)) return format_percent(v, a, b);
    return fail_types(v, op, a, b);
}

// ---- comparison

static bool in_items(vm *v, value holder, value x) {
    iterator *it = iterate(v, holder);
    value item;
    while (it && iterate_next(v, it, &item))
        if (value_equal(v, item, x)) return true;
    return false;
}

bool contains(vm *v, value holder, value x) {
    if (is_text(holder)) {
        if (!is_text(x)) return fail_types(v, OP_IN, x, holder), false;
        return text_find(v, holder, x, 0) != SIZE_MAX;
    }
    if (holder.kind == VALUE_DICT || (holder.kind == VALUE_VIEW && holder.mark == VIEW_KEYS)) {
        if (!can_be_key(x))
            return vm_fail(v, "a value of type '%s' cannot be a key", kind_name((value_kind)x.kind)), false;
        return dict_find(v, holder.dict, x) != NULL;
    }
    if (!is_iterable(holder)) return fail_types(v, OP_IN, x, holder), false;
    return in_items(v, holder, x);
}

bool compare(vm *v, operator_kind op, value a, value b) {
    if (vm_failed(v)) return false;
    bool nan = (a.kind == VALUE_FLOAT && isnan(a.real)) || (b.kind == VALUE_FLOAT && isnan(b.real));
    switch (op) {
    case OP_EQ: return value_equal(v, a, b);
    case OP_NE: return !value_equal(v, a, b);
    case OP_IN: return contains(v, b, a);
    case OP_NOT_IN: return !contains(v, b, a);
    default: break;
    }
    int order = value_order(v, a, b);
    if (nan) return false;
    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}
