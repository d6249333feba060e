// Methods of strings, lists, tuples and dicts.
#include "chat/inside.h"

// Python's names. A method that is not supported is refused when it is called.
static const char *const string_names[] = {
    "capitalize",   "casefold",   "center",    "count",       "encode",    "endswith",     "expandtabs",   "find",
    "format",       "format_map", "index",     "isalnum",     "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "isidentifier", "islower",    "isnumeric", "isprintable", "isspace",   "istitle",      "isupper",      "join",
    "ljust",        "lower",      "lstrip",    "maketrans",   "partition", "removeprefix", "removesuffix", "replace",
    "rfind",        "rindex",     "rjust",     "rpartition",  "rsplit",    "rstrip",       "split",        "splitlines",
    "startswith",   "strip",      "swapcase",  "title",       "translate", "upper",        "zfill",        NULL};
static const char *const list_names[] = {"append", "clear", "copy",   "count",   "extend", "index",
                                         "insert", "pop",   "remove", "reverse", "sort",   NULL};
static const char *const dict_names[] = {"clear", "copy",    "fromkeys",   "get",    "items",  "keys",
                                         "pop",   "popitem", "setdefault", "update", "values", NULL};
static const char *const number_names[] = {"real",       "imag",      "numerator", "denominator", "bit_length",
                                           "bit_count",  "conjugate", "to_bytes",  "from_bytes",  "as_integer_ratio",
                                           "is_integer", "hex",       "fromhex",   NULL};

static const char *find_name(const char *const *names, value name) {
    for (; *names; names++)
        if (text_is(name, *names)) return *names;
    return NULL;
}

const char *method_name(value_kind kind, value name) {
    switch (kind) {
    case VALUE_STRING: return find_name(string_names, name);
    case VALUE_LIST: return find_name(list_names, name);
    case VALUE_TUPLE: return text_is(name, "count") ? "count" : text_is(name, "index") ? "index" : NULL;
    case VALUE_DICT: return find_name(dict_names, name);
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_FLOAT: return find_name(number_names, name);
    default: return NULL;
    }
}

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

static value refuse(vm *v, value self, const char *name) {
    static const char *const changing[] = {"append",  "clear", "extend",  "insert",     "pop",    "remove",
                                           "reverse", "sort",  "popitem", "setdefault", "update", NULL};
    if ((self.kind == VALUE_LIST || self.kind == VALUE_DICT) && is_one_of(name, changing))
        return vm_fail(v, "a template may not change a %s; '%s' does", kind_name((value_kind)self.kind), name);
    return vm_fail(v, "the method '%s' of '%s' is not supported", name, kind_name((value_kind)self.kind));
}

// ---- dicts

static value view_of(value d, view_kind kind) {
    d.kind = VALUE_VIEW;
    d.mark = (uint8_t)kind;
    return d;
}

static value dict_get(vm *v, value self, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, "get", "key default=", given)) return value_none();
    if (!can_be_key(given[0]))
        return vm_fail(v, "a value of type '%s' cannot be a key", kind_name((value_kind)given[0].kind));
    const value *there = dict_find(v, self.dict, given[0]);
    return there ? *there : given[1].kind == VALUE_MISSING ? value_none() : given[1];
}

static value call_dict(vm *v, value self, const char *name, const arguments *a) {
    if (strcmp(name, "get") == 0) return dict_get(v, self, a);
    bool items = strcmp(name, "items") == 0, keys = strcmp(name, "keys") == 0, values = strcmp(name, "values") == 0;
    bool copy = strcmp(name, "copy") == 0;
    if (!items && !keys && !values && !copy) return refuse(v, self, name);
    if (!take_arguments(v, a, name, "", NULL)) return value_none();
    return copy ? self : view_of(self, items ? VIEW_ITEMS : keys ? VIEW_KEYS : VIEW_VALUES);
}

// ---- lists

static value call_list(vm *v, value self, const char *name, const arguments *a) {
    value given[1];
    bool count = strcmp(name, "count") == 0, index = strcmp(name, "index") == 0;
    if (strcmp(name, "copy") == 0) return take_arguments(v, a, name, "", NULL) ? self : value_none();
    if (!count && !index) return refuse(v, self, name);
    if (!take_arguments(v, a, name, "value", given)) return value_none();
    int64_t found = 0;
    for (uint32_t i = 0; i < self.list->count && !vm_failed(v); i++) {
        if (!value_equal(v, self.list->items[i], given[0])) continue;
        if (index) return value_int(i);
        found++;
    }
    return index ? vm_fail(v, "the value of 'index' is not in the list") : value_int(found);
}

value call_method(vm *v, const value_method *m, const arguments *a) {
    switch (m->self.kind) {
    case VALUE_STRING: return call_string_method(v, m->self, m->name, a);
    case VALUE_DICT: return call_dict(v, m->self, m->name, a);
    case VALUE_LIST:
    case VALUE_TUPLE: return call_list(v, m->self, m->name, a);
    case VALUE_LOOP: return call_loop_method(v, m->self.loop, m->name, a);
    default: return refuse(v, m->self, m->name);
    }
}
