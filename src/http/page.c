// The page: files of src/http/page, embedded by the build.
#include "http/inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct page_file {
    const char *name;
    const unsigned char *bytes;
    size_t length;
} page_file;

#include "page_files.inc"

enum { PAGE_FILES = sizeof page_files / sizeof *page_files };

static const char *type_of(const char *name) {
    const char *dot = strrchr(name, '.');
    if (dot && strcmp(dot, ".css") == 0) return "text/css; charset=utf-8";
    if (dot && strcmp(dot, ".js") == 0) return "text/javascript; charset=utf-8";
    if (dot && strcmp(dot, ".svg") == 0) return "image/svg+xml";
    return "text/html; charset=utf-8";
}

// The page asks for nothing outside of this server, and no other site may frame it.
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void handle_page(exchange *x) {
    const char *name = strcmp(x->path, "/") == 0 ? "index.html" : x->path + strlen("/page/");
    for (size_t i = 0; x->server->page && i < PAGE_FILES; i++) {
        if (strcmp(page_files[i].name, name) != 0) continue;
        char *copy = malloc(page_files[i].length + 1);
        if (copy) memcpy(copy, page_files[i].bytes, page_files[i].length);
        exchange_header_set(x, "Content-Security-Policy", policy);
        exchange_header_set(x, "Referrer-Policy", "no-referrer");
        exchange_header_set(x, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        exchange_reply(x, 200, type_of(name), copy, page_files[i].length);
        return;
    }
    reply_error(x, 404, NULL, "not_found", x->server->page ? "the page has no such file" : "the page is switched off");
}
