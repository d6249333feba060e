// The table of filters.
#include "chat/inside.h"

static filter_function find_in(const filter_entry *table, value name) {
    for (; table->name; table++)
        if (text_is(name, table->name)) return table->run;
    return NULL;
}

static filter_function find_filter(value name) {
    filter_function run = find_in(filters_of_lists, name);
    return run ? run : find_in(filters_of_texts, name);
}

bool filter_exists(value name) { return find_filter(name) != NULL; }

bool filter_known(value name) {
    static const char *const others[] = {"filesizeformat", "forceescape", "groupby",  "pprint", "random",
                                         "striptags",      "urlize",      "wordwrap", "xmlattr"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (text_is(name, others[i])) return true;
    return false;
}

value call_filter(vm *v, value name, value in, const arguments *a) {
    filter_function run = is_text(name) ? find_filter(name) : NULL;
    if (vm_failed(v)) return value_none();
    if (!run && filter_known(name))
        return vm_fail(v, "the filter '%.*s' is not supported", (int)name.length, name.text);
    if (!run)
        return vm_fail(v, "there is no filter '%.*s'", is_text(name) && name.length < 60 ? (int)name.length : 0,
                       is_text(name) ? name.text : "");
    return run(v, in, a);
}
