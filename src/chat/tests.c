// Tests: `x is defined`.
#include "chat/inside.h"

typedef bool (*test_function)(vm *v, value x, value y);

static bool is_defined(vm *v, value x, value y) { return (void)v, (void)y, !is_undefined(x); }
static bool is_not_defined(vm *v, value x, value y) { return (void)v, (void)y, is_undefined(x); }
static bool is_none(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_NONE; }
static bool is_boolean(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_BOOL; }
static bool is_true(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_BOOL && x.truth; }
static bool is_false(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_BOOL && !x.truth; }
static bool is_integer(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_INT || x.kind == VALUE_BIG; }
static bool is_float(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_FLOAT; }
static bool is_numeric(vm *v, value x, value y) { return (void)v, (void)y, is_number(x) || x.kind == VALUE_BIG; }
static bool is_string(vm *v, value x, value y) { return (void)v, (void)y, is_text(x); }
static bool is_mapping(vm *v, value x, value y) { return (void)v, (void)y, x.kind == VALUE_DICT; }
static bool is_escaped(vm *v, value x, value y) { return (void)v, (void)y, is_text(x) && x.mark; }
static bool can_iterate(vm *v, value x, value y) { return (void)v, (void)y, is_iterable(x); }

static bool is_sequence(vm *v, value x, value y) {
    (void)v, (void)y;
    return is_text(x) || is_list(x) || x.kind == VALUE_DICT || x.kind == VALUE_RANGE || is_undefined(x);
}

static bool is_callable(vm *v, value x, value y) {
    (void)v, (void)y;
    return x.kind == VALUE_MACRO || x.kind == VALUE_FUNCTION || x.kind == VALUE_METHOD || x.kind == VALUE_LOOP ||
           is_undefined(x);
}

static bool remainder_is(vm *v, value x, value y, int64_t want) {
    value rest = operate(v, OP_MOD, x, y);
    return !vm_failed(v) && value_equal(v, rest, value_int(want));
}
static bool is_odd(vm *v, value x, value y) { return (void)y, remainder_is(v, x, value_int(2), 1); }
static bool is_even(vm *v, value x, value y) { return (void)y, remainder_is(v, x, value_int(2), 0); }
static bool is_divisible(vm *v, value x, value y) { return remainder_is(v, x, y, 0); }

static bool has_case(vm *v, value x, bool upper) {
    x = value_string(v, x);
    return !vm_failed(v) && vm_charge(v, x.length) && text_is_case(x, upper);
}
static bool is_upper(vm *v, value x, value y) { return (void)y, has_case(v, x, true); }
static bool is_lower(vm *v, value x, value y) { return (void)y, has_case(v, x, false); }

static bool is_filter(vm *v, value x, value y) {
    return (void)v, (void)y, is_text(x) && (filter_exists(x) || filter_known(x));
}
static bool is_test(vm *v, value x, value y) { return (void)v, (void)y, is_text(x) && test_exists(x); }

// Identity: of small values equality, of the others the same object.
static bool is_same(vm *v, value x, value y) {
    if (x.kind != y.kind) return false;
    if (is_number(x) || is_text(x) || x.kind == VALUE_NONE) return value_equal(v, x, y);
    return x.list == y.list;
}

static bool is_in(vm *v, value x, value y) { return compare(v, OP_IN, x, y); }
static bool is_eq(vm *v, value x, value y) { return compare(v, OP_EQ, x, y); }
static bool is_ne(vm *v, value x, value y) { return compare(v, OP_NE, x, y); }
static bool is_lt(vm *v, value x, value y) { return compare(v, OP_LT, x, y); }
static bool is_le(vm *v, value x, value y) { return compare(v, OP_LE, x, y); }
static bool is_gt(vm *v, value x, value y) { return compare(v, OP_GT, x, y); }
static bool is_ge(vm *v, value x, value y) { return compare(v, OP_GE, x, y); }

static const struct {
    const char *name;
    test_function run;
    bool operand;
} tests[] = {{"defined", is_defined, false},
             {"undefined", is_not_defined, false},
             {"none", is_none, false},
             {"boolean", is_boolean, false},
             {"true", is_true, false},
             {"false", is_false, false},
             {"integer", is_integer, false},
             {"float", is_float, false},
             {"number", is_numeric, false},
             {"string", is_string, false},
             {"mapping", is_mapping, false},
             {"sequence", is_sequence, false},
             {"iterable", can_iterate, false},
             {"callable", is_callable, false},
             {"escaped", is_escaped, false},
             {"odd", is_odd, false},
             {"even", is_even, false},
             {"divisibleby", is_divisible, true},
             {"upper", is_upper, false},
             {"lower", is_lower, false},
             {"filter", is_filter, false},
             {"test", is_test, false},
             {"sameas", is_same, true},
             {"in", is_in, true},
             {"==", is_eq, true},
             {"eq", is_eq, true},
             {"equalto", is_eq, true},
             {"!=", is_ne, true},
             {"ne", is_ne, true},
             {"<", is_lt, true},
             {"lt", is_lt, true},
             {"lessthan", is_lt, true},
             {"<=", is_le, true},
             {"le", is_le, true},
             {">", is_gt, true},
             {"gt", is_gt, true},
             {"greaterthan", is_gt, true},
             {">=", is_ge, true},
             {"ge", is_ge, true}};

static size_t find_test(value name) {
    size_t i = 0;
    while (i < sizeof tests / sizeof *tests && !text_is(name, tests[i].name)) i++;
    return i;
}

bool test_exists(value name) { return find_test(name) < sizeof tests / sizeof *tests; }

bool call_test(vm *v, value name, value x, const arguments *a) {
    if (!is_text(name) || !test_exists(name))
        return vm_fail(v, "there is no test '%.*s'", is_text(name) && name.length < 60 ? (int)name.length : 0,
                       is_text(name) ? name.text : ""),
               false;
    size_t i = find_test(name);
    value y = value_none();
    if (!take_arguments(v, a, tests[i].name, tests[i].operand ? "operand" : "", &y)) return false;
    return tests[i].run(v, x, y);
}
