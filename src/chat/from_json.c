// JSON as values.
#include "chat/inside.h"

#include <errno.h>

static value number(const json_value *j) {
    bool whole = !memchr(j->text, '.', j->length) && !memchr(j->text, 'e', j->length) &&
                 !memchr(j->text, 'E', j->length);
    if (!whole) return value_float(strtod(j->text, NULL));
    errno = 0;
    int64_t n = strtoll(j->text, NULL, 10);
    if (errno == 0) return value_int(n);
    return (value){.kind = VALUE_BIG, .length = j->length, .text = j->text};
}

value value_from_json(vm *v, const json *d, const json_value *j) {
    switch (j->kind) {
    case JSON_NULL: return value_none();
    case JSON_FALSE: return value_bool(false);
    case JSON_TRUE: return value_bool(true);
    case JSON_NUMBER: return number(j);
    case JSON_STRING: return value_text(j->text, j->length);
    default: break;
    }
    value out = j->kind == JSON_ARRAY ? value_new_list(v, VALUE_LIST, j->count) : value_new_dict(v, j->count);
    uint32_t i = 0;
    for (const json_value *item = json_first(d, j); item && !vm_failed(v); item = json_next(d, item)) {
        value x = value_from_json(v, d, item);
        if (vm_failed(v)) break;
        if (j->kind == JSON_ARRAY)
            out.list->items[i++] = x;
        else
            out.dict->entries[out.dict->count++] = (dict_entry){value_text(item->key, strlen(item->key)), x};
    }
    return out;
}
