#include "http/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_PEM_BYTES = 1 << 20, BACKLOG = 1024 };

static braid_err read_pem(const char *path, char **out, braid_error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open %s: %s", path, strerror(errno));
    char *text = malloc(MAX_PEM_BYTES + 1);
    size_t n = text ? fread(text, 1, MAX_PEM_BYTES + 1, file) : 0;
    bool failed = ferror(file);
    fclose(file);
    if (!text || failed || n > MAX_PEM_BYTES) {
        free(text);
        if (!text) return braid_fail(error, BRAID_MEMORY, "no memory for %s", path);
        return braid_fail(error, BRAID_IO, "cannot read %s, or it is larger than 1 MiB", path);
    }
    text[n] = 0;
    *out = text;
    return BRAID_OK;
}

static braid_err apply_tls(http_server *s, const http_settings *settings, braid_error *error) {
    if (!settings->certificate != !settings->private_key)
        return braid_fail(error, BRAID_CONFIG, "TLS needs both a certificate and its private key");
    if (!settings->certificate) return BRAID_OK;
    braid_err err = read_pem(settings->certificate, &s->certificate, error);
    return err ? err : read_pem(settings->private_key, &s->private_key, error);
}

static braid_err copy_keys(http_server *s, const http_settings *settings, braid_error *error) {
    if (settings->key_count > HTTP_MAX_KEYS)
        return braid_fail(error, BRAID_CONFIG, "there are more than %d keys", HTTP_MAX_KEYS);
    s->keys = calloc(settings->key_count + 1, sizeof *s->keys);
    if (!s->keys) return braid_fail(error, BRAID_MEMORY, "no memory for the keys");
    for (size_t i = 0; i < settings->key_count; i++) {
        const http_key *from = &settings->keys[i];
        http_key *to = &s->keys[s->key_count++].key;
        *to = *from;
        to->secret = strdup(from->secret);
        to->label = strdup(from->label ? from->label : "");
        if (!to->secret || !to->label) return braid_fail(error, BRAID_MEMORY, "no memory for the keys");
        if (strlen(from->secret) == 0 || strlen(from->secret) > HTTP_MAX_SECRET_BYTES)
            return braid_fail(error, BRAID_CONFIG, "the key '%s' has no secret, or one of more than %d characters",
                              to->label, HTTP_MAX_SECRET_BYTES);
    }
    return BRAID_OK;
}

// "*", or a scheme and a host without a path, as browsers write an origin (RFC 6454, section 6.2).
static bool is_origin(const char *text) {
    const char *host = strstr(text, "://");
    return strcmp(text, "*") == 0 || (host && host > text && host[3] && !strchr(host + 3, '/'));
}

static braid_err copy_origins(http_server *s, const http_settings *settings, braid_error *error) {
    if (settings->origin_count > HTTP_MAX_ORIGINS)
        return braid_fail(error, BRAID_CONFIG, "there are more than %d origins", HTTP_MAX_ORIGINS);
    s->origins = calloc(settings->origin_count + 1, sizeof *s->origins);
    if (!s->origins) return braid_fail(error, BRAID_MEMORY, "no memory for the origins");
    for (; s->origin_count < settings->origin_count; s->origin_count++) {
        const char *text = settings->origins[s->origin_count];
        if (!is_origin(text))
            return braid_fail(error, BRAID_CONFIG,
                              "the origin '%.100s' is none: write https://HOST or https://HOST:PORT without a path, or "
                              "* for all",
                              text);
        s->origins[s->origin_count] = strdup(text);
        if (!s->origins[s->origin_count]) return braid_fail(error, BRAID_MEMORY, "no memory for the origins");
    }
    return BRAID_OK;
}

static char *token_text(const tokenizer *t, uint32_t id) {
    size_t length = 0;
    const char *text = id == TOKENIZER_NO_ID ? NULL : tokenizer_token(t, id, &length);
    return text ? strndup(text, length) : NULL;
}

static braid_err apply_template(http_server *s, const http_settings *settings, braid_error *error) {
    if (!s->model) return BRAID_OK;
    const char *source = settings->chat_template ? settings->chat_template : s->model->chat_template;
    if (s->model->tokenizer) {
        s->chat.bos = token_text(s->model->tokenizer, tokenizer_bos(s->model->tokenizer));
        s->chat.eos = token_text(s->model->tokenizer, tokenizer_eos(s->model->tokenizer));
    }
    if (!source) return BRAID_OK;
    s->chat.source = strdup(source);
    if (!s->chat.source) return braid_fail(error, BRAID_MEMORY, "no memory for the chat template");
    return chat_template_parse(source, strlen(source), &s->chat.template, error);
}

braid_err settings_apply(http_server *s, const http_settings *settings, braid_error *error) {
    s->service = settings->service;
    s->model = s->service ? service_model_of(s->service) : NULL;
    if (!s->service) s->run = *settings->run;
    s->page = settings->page;
    s->keep_alive_ns = settings->keep_alive_ns ? settings->keep_alive_ns : HTTP_KEEP_ALIVE_NS;
    s->max_body_bytes = settings->max_body_bytes ? settings->max_body_bytes : HTTP_BODY_BYTES;
    if (getrandom(&s->random, sizeof s->random, 0) != (ssize_t)sizeof s->random)
        return braid_fail(error, BRAID_IO, "the system gives no random numbers: %s", strerror(errno));
    s->events.id = server_random(s);
    braid_err err = apply_tls(s, settings, error);
    if (!err) err = copy_keys(s, settings, error);
    if (!err) err = copy_origins(s, settings, error);
    if (!err) err = apply_template(s, settings, error);
    return err;
}

void settings_free(http_server *s) {
    for (size_t i = 0; i < s->key_count; i++) {
        free((char *)s->keys[i].key.secret);
        free((char *)s->keys[i].key.label);
    }
    for (size_t i = 0; i < s->origin_count; i++) free(s->origins[i]);
    free(s->keys);
    free(s->origins);
    free(s->certificate);
    free(s->private_key);
    free(s->chat.source);
    free(s->chat.bos);
    free(s->chat.eos);
    chat_template_free(s->chat.template);
}

// ---- the socket

static bool is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static int open_socket(const struct addrinfo *a) {
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, off = 0;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static void name_address(http_server *s, int fd) {
    struct sockaddr_storage a = {0};
    socklen_t length = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &length) != 0) return;
    s->port =
        ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
    bool six = strchr(s->host, ':') != NULL;
    snprintf(s->address, sizeof s->address, "%s://%s%s%s:%u", s->certificate ? "https" : "http", six ? "[" : "",
             s->host, six ? "]" : "", s->port);
}

static braid_err check_open(const http_settings *settings, const http_server *s, braid_error *error) {
    if (s->loopback || s->key_count > 0 || settings->without_key) return BRAID_OK;
    return braid_fail(error, BRAID_CONFIG,
                      "%s is reachable from other machines, and there is no key: give keys, or listen on 127.0.0.1",
                      s->host);
}

braid_err settings_listen(const http_settings *settings, http_server *s, int *out, braid_error *error) {
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    snprintf(s->host, sizeof s->host, "%s", settings->host ? settings->host : "127.0.0.1");
    snprintf(port, sizeof port, "%u", settings->port);
    int code = getaddrinfo(s->host, port, &hints, &found);
    if (code != 0)
        return braid_fail(error, BRAID_CONFIG, "'%s' is no address to listen on: %s", s->host, gai_strerror(code));
    s->loopback = is_loopback(found->ai_addr);
    braid_err err = check_open(settings, s, error);
    if (!err && (*out = open_socket(found)) < 0)
        err = braid_fail(error, BRAID_IO, "cannot listen on %s, port %s: %s%s", s->host, port, strerror(errno),
                         errno == EADDRINUSE ? "; another program uses it: choose another --port" : "");
    freeaddrinfo(found);
    if (!err) name_address(s, *out);
    return err;
}
