// Failures and limits of a rendering, and the binding of arguments.
#include "chat/inside.h"

#include <stdarg.h>
#include <stdio.h>

const char *kind_name(value_kind kind) {
    static const char *const names[] = {"missing", "Undefined", "NoneType",  "bool",       "int",
                                        "int",     "float",     "str",       "list",       "tuple",
                                        "dict",    "range",     "dict view", "generator",  "namespace",
                                        "Macro",   "function",  "method",    "LoopContext"};
    return names[kind];
}

// A message may have text of the template. A terminal would obey control characters in it.
static void hide_controls(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        if (*at == '\n' || *at == '\t') *at = ' ';
        bool wide = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;
        if (wide) at[1] = '?';
        if (*at < 0x20 || *at == 0x7f || wide) *at = '?';
    }
}

static value fail_with(vm *v, braid_err code, const char *format, va_list list) {
    if (!v->err) {
        char text[400];
        vsnprintf(text, sizeof text, format, list);
        hide_controls(text);
        v->err = braid_fail(v->error, code, "chat template, line %u: %s", (unsigned)v->line, text);
    }
    return (value){.kind = VALUE_NONE};
}

value vm_fail(vm *v, const char *format, ...) {
    va_list list;
    va_start(list, format);
    value none = fail_with(v, BRAID_FORMAT, format, list);
    va_end(list);
    return none;
}

value vm_fail_code(vm *v, braid_err code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    value none = fail_with(v, code, format, list);
    va_end(list);
    return none;
}

bool vm_charge(vm *v, uint64_t steps) {
    v->steps += steps;
    if (v->steps > CHAT_MAX_STEPS)
        vm_fail_code(v, BRAID_LIMIT, "the template takes more than %d steps", CHAT_MAX_STEPS);
    return !vm_failed(v);
}

void *vm_take(vm *v, size_t bytes) {
    if (!vm_charge(v, bytes / 64)) return NULL;
    void *at = arena_take(&v->arena, bytes);
    if (!at) vm_fail_code(v, BRAID_LIMIT, "the template needs more than %d MiB of memory", CHAT_MAX_MEMORY_BYTES >> 20);
    return at;
}

void vm_write(vm *v, const char *text, size_t length) {
    v->written += length;
    if (v->written > CHAT_MAX_OUTPUT_BYTES)
        vm_fail_code(v, BRAID_LIMIT, "the template writes more than %d MiB", CHAT_MAX_OUTPUT_BYTES >> 20);
    if (!vm_charge(v, 1 + length / 64)) return;
    buffer_add(v->out, text, length);
    if (v->out->failed) vm_fail_code(v, BRAID_MEMORY, "no memory for the text");
}

// ---- arguments

// The number of the parameter with this name, or -1.
static int parameter(const char *signature, value name) {
    for (int i = 0; *signature; i++) {
        size_t n = strcspn(signature, " ="), all = strcspn(signature, " ");
        if (n == name.length && memcmp(signature, name.text, n) == 0) return i;
        signature += all + (signature[all] == ' ');
    }
    return -1;
}

static bool check_required(vm *v, const char *name, const char *signature, const value *out) {
    for (int i = 0; *signature; i++) {
        size_t n = strcspn(signature, " ");
        if (out[i].kind == VALUE_MISSING && signature[n - 1] != '=')
            return vm_fail(v, "%s needs the argument '%.*s'", name, (int)n, signature), false;
        signature += n + (signature[n] == ' ');
    }
    return !vm_failed(v);
}

static uint32_t parameter_count(const char *signature) {
    uint32_t count = *signature != 0;
    for (; *signature; signature++) count += *signature == ' ';
    return count;
}

bool take_arguments(vm *v, const arguments *a, const char *name, const char *signature, value *out) {
    uint32_t most = parameter_count(signature);
    for (uint32_t i = 0; i < most; i++) out[i] = (value){0};
    if (a->count > most) return vm_fail(v, "%s takes at most %u arguments", name, (unsigned)most), false;
    for (uint32_t i = 0; i < a->count; i++) out[i] = a->at[i];
    for (uint32_t i = 0; i < a->named_count; i++) {
        value key = a->named[i].key;
        int at = parameter(signature, key);
        if (at < 0) return vm_fail(v, "%s has no argument '%.*s'", name, (int)key.length, key.text), false;
        if (out[at].kind != VALUE_MISSING)
            return vm_fail(v, "%s has two values for '%.*s'", name, (int)key.length, key.text), false;
        out[at] = a->named[i].value;
    }
    return check_required(v, name, signature, out);
}

int64_t take_int(vm *v, value x, const char *name, int64_t fallback) {
    if (x.kind == VALUE_MISSING || x.kind == VALUE_NONE) return fallback;
    if (x.kind == VALUE_BOOL) return x.truth;
    if (x.kind == VALUE_INT) return x.integer;
    vm_fail(v, "%s needs an integer, not '%s'", name, kind_name((value_kind)x.kind));
    return fallback;
}
