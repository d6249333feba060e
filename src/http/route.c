#include "http/inside.h"

#include <stdio.h>
#include <string.h>

#define GET  MHD_HTTP_METHOD_GET
#define POST MHD_HTTP_METHOD_POST

// OpenAI's paths work without /v1, too, since clients add no part to the base URL that they are given.
static const route routes[] = {
    {GET, "/health", "health", handle_health, ROUTE_OPEN, .quick = true, .always = true},
    {GET, "/ready", "ready", handle_ready, ROUTE_OPEN, .quick = true, .always = true},
    {GET, "/metrics", "metrics", handle_metrics, ROUTE_METRICS, .always = true},
    {GET, "/v1/models", "models", handle_models, ROUTE_KEY, .quick = true},
    {GET, "/v1/models/*", "model", handle_model, ROUTE_KEY, .quick = true},
    {GET, "/v1/swarm", "swarm", handle_swarm, ROUTE_KEY, .always = true},
    {GET, "/events", "events", handle_events, ROUTE_KEY, .quick = true, .always = true},
    {GET, "/tokenizer_info", "tokenizer_info", handle_tokenizer_info, ROUTE_KEY, .quick = true},
    {POST, "/tokenize", "tokenize", handle_tokenize, ROUTE_KEY, .quick = false},
    {POST, "/detokenize", "detokenize", handle_detokenize, ROUTE_KEY, .quick = false},
    {POST, "/v1/completions", "completions", handle_completions, ROUTE_KEY, .text = true},
    {POST, "/v1/chat/completions", "chat", handle_chat, ROUTE_KEY, .text = true},
    {POST, "/v1/responses", "responses", handle_responses, ROUTE_KEY, .text = true},
    {POST, "/v1/embeddings", "embeddings", handle_embeddings, ROUTE_KEY, .text = true},
    {POST, "/api/chat", "ollama_chat", handle_ollama_chat, ROUTE_KEY, .ollama = true, .text = true},
    {POST, "/api/generate", "ollama_generate", handle_ollama_generate, ROUTE_KEY, .ollama = true, .text = true},
    {POST, "/api/embed", "ollama_embed", handle_embeddings, ROUTE_KEY, .ollama = true, .text = true},
    {GET, "/api/tags", "ollama_tags", handle_ollama_tags, ROUTE_KEY, .quick = true, .ollama = true},
    {GET, "/api/version", "ollama_version", handle_ollama_version, ROUTE_KEY, .quick = true, .ollama = true},
    {POST, "/api/show", "ollama_show", handle_ollama_show, ROUTE_KEY, .quick = true, .ollama = true},
    {GET, "/", "page", handle_page, ROUTE_OPEN, .quick = true, .always = true},
    {GET, "/page/*", "page", handle_page, ROUTE_OPEN, .quick = true, .always = true},
};

enum { ROUTES = sizeof routes / sizeof *routes };
_Static_assert(sizeof routes / sizeof *routes < (size_t)METRICS_ROUTES, "each route needs its counters");

route_table endpoint_routes(void) { return (route_table){routes, ROUTES}; }

static bool path_matches(const char *pattern, const char *path) {
    size_t n = strlen(pattern);
    if (pattern[n - 1] == '*') return strncmp(pattern, path, n - 1) == 0 && path[n - 1] != 0;
    if (strcmp(pattern, path) == 0) return true;
    return strncmp(pattern, "/v1/", 4) == 0 && strcmp(pattern + 3, path) == 0;
}

static bool method_matches(const char *method, const char *given) {
    return strcmp(method, given) == 0 || (strcmp(method, GET) == 0 && strcmp(given, MHD_HTTP_METHOD_HEAD) == 0);
}

bool endpoint_find(exchange *x) {
    size_t n = strlen(x->path);
    if (n > 1 && x->path[n - 1] == '/') x->path[n - 1] = 0;
    const route *other = NULL;
    for (size_t i = 0; i < ROUTES; i++) {
        if (!path_matches(routes[i].path, x->path)) continue;
        other = &routes[i];
        if (!method_matches(routes[i].method, x->method) && strcmp(x->method, MHD_HTTP_METHOD_OPTIONS) != 0) continue;
        x->route = &routes[i];
        return true;
    }
    if (other) {
        exchange_header_set(x, MHD_HTTP_HEADER_ALLOW, other->method);
        reply_error(x, 405, NULL, "method_not_allowed", "%s needs the method %s, not %s", x->path, other->method,
                    x->method);
    } else if (n == 0) {
        reply_error(x, 404, NULL, "not_found", "the address has more than %d characters", EXCHANGE_MAX_PATH - 1);
    } else {
        reply_error(x, 404, NULL, "not_found", "there is no %.200s here; docs/api.md lists the addresses", x->path);
    }
    return false;
}
