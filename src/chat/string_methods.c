// Methods of strings.
#include "chat/inside.h"

typedef value (*string_method)(vm *v, value self, const char *name, const arguments *a);

static value need_text(vm *v, const char *name) { return vm_fail(v, "'%s' needs a text", name); }

static value run_case(vm *v, value self, const char *name, const arguments *a) {
    static const struct {
        const char *name;
        case_kind kind;
    } kinds[] = {{"upper", CASE_UPPER},
                 {"lower", CASE_LOWER},
                 {"title", CASE_TITLE},
                 {"capitalize", CASE_CAPITAL},
                 {"swapcase", CASE_SWAP}};
    if (!take_arguments(v, a, name, "", NULL)) return value_none();
    size_t i = 0;
    while (strcmp(kinds[i].name, name) != 0) i++;
    return text_case(v, self, kinds[i].kind);
}

static value run_strip(vm *v, value self, const char *name, const arguments *a) {
    value chars;
    if (!take_arguments(v, a, name, "chars=", &chars)) return value_none();
    return text_strip(v, self, chars, name[0] != 'r', name[0] != 'l');
}

static value run_split(vm *v, value self, const char *name, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, name, "sep= maxsplit=", given)) return value_none();
    int64_t most = take_int(v, given[1], name, -1);
    return vm_failed(v) ? value_none() : text_split(v, self, given[0], most, name[0] == 'r');
}

static value run_lines(vm *v, value self, const char *name, const arguments *a) {
    value keep;
    if (!take_arguments(v, a, name, "keepends=", &keep)) return value_none();
    return text_lines(v, self, value_truth(v, keep));
}

static value run_replace(vm *v, value self, const char *name, const arguments *a) {
    value given[3];
    if (!take_arguments(v, a, name, "old new count=", given)) return value_none();
    if (!is_text(given[0]) || !is_text(given[1])) return need_text(v, name);
    int64_t most = take_int(v, given[2], name, -1);
    return vm_failed(v) ? value_none() : text_replace(v, self, given[0], given[1], most);
}

// The part of the text between two optional numbers of characters; false: it is not within the text.
static bool part_of(vm *v, value self, value start, value end, value *part, size_t *offset) {
    int64_t count = (int64_t)text_chars(v, self), from = take_int(v, start, "a text", 0),
            to = take_int(v, end, "a text", count);
    if (from < 0) from = from + count < 0 ? 0 : from + count;
    if (to < 0) to = to + count < 0 ? 0 : to + count;
    if (to > count) to = count;
    if (from > count || from > to) return false;
    *offset = (size_t)from;
    size_t at = text_offset(self, (size_t)from);
    value rest = value_text(self.text + at, self.length - at);
    *part = value_text(rest.text, text_offset(rest, (size_t)(to - from)));
    return true;
}

static bool has_affix(value x, value affix, bool at_end) {
    if (affix.length > x.length) return false;
    return affix.length == 0 || memcmp(x.text + (at_end ? x.length - affix.length : 0), affix.text, affix.length) == 0;
}

static value run_affix(vm *v, value self, const char *name, const arguments *a) {
    value given[3], part;
    size_t offset;
    if (!take_arguments(v, a, name, "prefix start= end=", given)) return value_none();
    bool within = part_of(v, self, given[1], given[2], &part, &offset), at_end = name[0] == 'e';
    if (is_text(given[0])) return value_bool(within && has_affix(part, given[0], at_end));
    if (given[0].kind != VALUE_TUPLE) return vm_fail(v, "'%s' needs a text or a tuple of texts", name);
    for (uint32_t i = 0; i < given[0].list->count && vm_charge(v, 1); i++) {
        value affix = given[0].list->items[i];
        if (!is_text(affix)) return need_text(v, name);
        if (within && has_affix(part, affix, at_end)) return value_bool(true);
    }
    return value_bool(false);
}

static value run_find(vm *v, value self, const char *name, const arguments *a) {
    value given[3], part;
    size_t offset;
    if (!take_arguments(v, a, name, "sub start= end=", given)) return value_none();
    if (!is_text(given[0])) return need_text(v, name);
    size_t at = SIZE_MAX;
    const char *kind = name[0] == 'r' ? name + 1 : name;
    if (part_of(v, self, given[1], given[2], &part, &offset))
        at = name[0] == 'r' ? text_rfind(v, part, given[0], part.length) : text_find(v, part, given[0], 0);
    if (vm_failed(v)) return value_none();
    if (at != SIZE_MAX) return value_int((int64_t)(offset + text_chars(v, value_text(part.text, at))));
    return strcmp(kind, "find") == 0 ? value_int(-1) : vm_fail(v, "the text of '%s' was not found", name);
}

static value run_count(vm *v, value self, const char *name, const arguments *a) {
    value given[3], part;
    size_t offset;
    int64_t count = 0;
    if (!take_arguments(v, a, name, "sub start= end=", given)) return value_none();
    if (!is_text(given[0])) return need_text(v, name);
    if (!part_of(v, self, given[1], given[2], &part, &offset)) return value_int(0);
    if (given[0].length == 0) return value_int((int64_t)text_chars(v, part) + 1);
    for (size_t at = 0; (at = text_find(v, part, given[0], at)) != SIZE_MAX; at += given[0].length) count++;
    return value_int(count);
}

static value run_is(vm *v, value self, const char *name, const arguments *a) {
    if (!take_arguments(v, a, name, "", NULL) || !vm_charge(v, self.length)) return value_none();
    if (strcmp(name, "isupper") == 0 || strcmp(name, "islower") == 0)
        return value_bool(text_is_case(self, name[2] == 'u'));
    return value_bool(text_has_flags(self, name));
}

static value run_join(vm *v, value self, const char *name, const arguments *a) {
    value items, item;
    if (!take_arguments(v, a, name, "iterable", &items)) return value_none();
    iterator *it = iterate(v, items);
    buffer out = {0};
    for (bool first = true; it && iterate_next(v, it, &item); first = false) {
        if (!is_text(item)) vm_fail(v, "'join' needs texts, not '%s'", kind_name((value_kind)item.kind));
        if (vm_failed(v)) break;
        if (!first) buffer_add(&out, self.text, self.length);
        buffer_add(&out, item.text, item.length);
        vm_charge(v, (self.length + item.length) / 64);
    }
    return value_take_buffer(v, &out);
}

static value run_partition(vm *v, value self, const char *name, const arguments *a) {
    value separator;
    if (!take_arguments(v, a, name, "sep", &separator)) return value_none();
    if (!is_text(separator) || separator.length == 0)
        return vm_fail(v, "'%s' needs a separator that is not empty", name);
    bool right = name[0] == 'r';
    size_t at = right ? text_rfind(v, self, separator, self.length) : text_find(v, self, separator, 0);
    value t = value_new_list(v, VALUE_TUPLE, 3);
    if (vm_failed(v)) return t;
    value *part = t.list->items;
    part[0] = part[1] = part[2] = VALUE_LITERAL("");
    if (at == SIZE_MAX) {
        part[right ? 2 : 0] = self;
        return t;
    }
    part[0] = value_text(self.text, at);
    part[1] = separator;
    part[2] = value_text(self.text + at + separator.length, self.length - at - separator.length);
    return t;
}

static value run_remove(vm *v, value self, const char *name, const arguments *a) {
    value affix;
    bool at_end = strcmp(name, "removesuffix") == 0;
    if (!take_arguments(v, a, name, "affix", &affix)) return value_none();
    if (!is_text(affix)) return need_text(v, name);
    if (!has_affix(self, affix, at_end)) return self;
    return value_text(self.text + (at_end ? 0 : affix.length), self.length - affix.length);
}

static value run_pad(vm *v, value self, const char *name, const arguments *a) {
    value given[2];
    if (!take_arguments(v, a, name, "width fillchar=", given)) return value_none();
    int64_t width = take_int(v, given[0], name, 0);
    return text_pad(v, self, width, given[1], name[0] != 'l', name[0] != 'r');
}

static value run_zfill(vm *v, value self, const char *name, const arguments *a) {
    value width;
    if (!take_arguments(v, a, name, "width", &width)) return value_none();
    bool sign = self.length > 0 && (self.text[0] == '-' || self.text[0] == '+');
    int64_t n = take_int(v, width, name, 0) - sign;
    value digits = text_pad(v, value_text(self.text + sign, self.length - sign), n, VALUE_LITERAL("0"), true, false);
    return vm_failed(v) || !sign ? digits : add_values(v, value_text(self.text, 1), digits);
}

static value run_format(vm *v, value self, const char *name, const arguments *a) {
    (void)name;
    return format_braces(v, self, a);
}

value call_string_method(vm *v, value self, const char *name, const arguments *a) {
    static const struct {
        const char *name;
        string_method run;
    } methods[] = {{"upper", run_case},           {"lower", run_case},          {"title", run_case},
                   {"capitalize", run_case},      {"swapcase", run_case},       {"strip", run_strip},
                   {"lstrip", run_strip},         {"rstrip", run_strip},        {"split", run_split},
                   {"rsplit", run_split},         {"splitlines", run_lines},    {"replace", run_replace},
                   {"startswith", run_affix},     {"endswith", run_affix},      {"find", run_find},
                   {"rfind", run_find},           {"index", run_find},          {"rindex", run_find},
                   {"count", run_count},          {"isupper", run_is},          {"islower", run_is},
                   {"isalpha", run_is},           {"isalnum", run_is},          {"isdigit", run_is},
                   {"isdecimal", run_is},         {"isnumeric", run_is},        {"isspace", run_is},
                   {"isascii", run_is},           {"join", run_join},           {"partition", run_partition},
                   {"rpartition", run_partition}, {"removeprefix", run_remove}, {"removesuffix", run_remove},
                   {"center", run_pad},           {"ljust", run_pad},           {"rjust", run_pad},
                   {"zfill", run_zfill},          {"format", run_format}};
    if (self.mark) return vm_fail(v, "methods of a text of the filters 'safe' or 'escape' are not supported");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0) return methods[i].run(v, self, name, a);
    return vm_fail(v, "the method '%s' of 'str' is not supported", name);
}
