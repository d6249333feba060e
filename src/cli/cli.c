#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

int cli_complain(int code, const char *verb, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "braid %s: ", verb);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}
