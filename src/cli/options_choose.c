// Text options with a value from a list of names, with several of them, or with a list of numbers.
#include "cli/options.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_SPACE = 256, MOST_SHOWN = 64 };

// "a, b or c"
static void list_names(const char *const *names, uint32_t count, const char *last, char text[NAMES_SPACE]) {
    size_t length = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < count && length < NAMES_SPACE; i++)
        length += (size_t)snprintf(text + length, NAMES_SPACE - length, "%s%s", i == 0 ? "" : i + 1 == count ? last : ", ", names[i]);
}

static uint32_t find_name(const char *text, size_t length, const char *const *names, uint32_t count) {
    uint32_t i = 0;
    while (i < count && !(strlen(names[i]) == length && strncmp(names[i], text, length) == 0)) i++;
    return i;
}

bool options_read_choice(const char *verb, const char *flag, const char *text, const char *const *names, uint32_t count,
                         uint32_t *choice) {
    char all[NAMES_SPACE];
    *choice = find_name(text, strlen(text), names, count);
    if (*choice < count) return true;
    list_names(names, count, " or ", all);
    cli_complain(CLI_USAGE, verb, "--%s is %s, not '%.64s'", flag, all, text);
    return false;
}

bool options_read_set(const char *verb, const char *flag, const char *text, const char *const *names, uint32_t count,
                      bool *set) {
    char all[NAMES_SPACE];
    size_t length = strcspn(text, ",");
    uint32_t found = find_name(text, length, names, count);
    memset(set, 0, count * sizeof *set);
    for (; found < count; found = find_name(text, length, names, count)) {
        set[found] = true;
        if (text[length] == 0) return true;
        text += length + 1;
        length = strcspn(text, ",");
    }
    list_names(names, count, " and ", all);
    cli_complain(CLI_USAGE, verb, "--%s: there is no '%.*s'; name some of %s, with commas between them", flag,
                 length < MOST_SHOWN ? (int)length : MOST_SHOWN, text, all);
    return false;
}

bool options_read_numbers(const char *verb, const char *flag, const char *text, option_numbers *numbers) {
    const char *at = text;
    for (numbers->count = 0; numbers->count < numbers->room; at++) {
        char *end;
        unsigned long long number = strtoull(at, &end, 10);
        bool digits = *at >= '0' && *at <= '9' && (*end == 0 || *end == ',');
        if (!digits || number < numbers->least || number > numbers->most) break;
        numbers->number[numbers->count++] = (uint32_t)number;
        at = end;
        if (*at == 0) return true;
    }
    cli_complain(CLI_USAGE, verb, "--%s is a list of at most %u numbers from %u to %u, with commas between them, not '%.64s'", flag,
                 numbers->room, numbers->least, numbers->most, text);
    return false;
}
