#include "cli/run_page.h"

#include "cli/run_board.h"
#include "http/server.h"

#include <stdlib.h>
#include <string.h>

struct run_page {
    run_board *board;
    http_keys keys;
    http_server *server;
};

static braid_err wrong_address(const char *address, braid_error *error) {
    return braid_fail(error, BRAID_CONFIG, "'%.100s' is no address; write PORT, HOST:PORT or [HOST]:PORT", address);
}

braid_err run_page_split(const char *address, char host[256], uint16_t *port, braid_error *error) {
    const char *colon = strrchr(address, ':'), *digits = colon ? colon + 1 : address;
    size_t length = colon ? (size_t)(colon - address) : 0;
    unsigned long number = strtoul(digits, NULL, 10);
    if (!*digits || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 5 || number > UINT16_MAX)
        return wrong_address(address, error);
    if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    } else if (memchr(address, ':', length)) {
        return wrong_address(address, error);
    }
    if (length >= 256) return wrong_address(address, error);
    snprintf(host, 256, "%.*s", (int)length, address);
    if (length == 0) strcpy(host, "127.0.0.1");
    *port = (uint16_t)number;
    return BRAID_OK;
}

static braid_err open_server(run_page *p, const char *address, braid_error *error) {
    char host[256];
    const http_run run = {.context = p->board,
                          .state = run_board_state,
                          .history = run_board_history,
                          .metrics = run_board_metrics,
                          .ready = run_board_ready};
    http_settings settings = {.host = host, .run = &run, .page = true};
    braid_err err = run_page_split(address, host, &settings.port, error);
    settings.keys = p->keys.at;
    settings.key_count = p->keys.count;
    return err ? err : http_server_new(&settings, &p->server, error);
}

braid_err run_page_open(const char *address, const char *keys, run_page **out, braid_error *error) {
    run_page *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p || !(p->board = run_board_new())) {
        free(p);
        return braid_fail(error, BRAID_MEMORY, "no memory for the page");
    }
    braid_err err = keys && *keys ? http_keys_read(keys, &p->keys, error) : BRAID_OK;
    if (!err) err = open_server(p, *address ? address : RUN_PAGE_ADDRESS, error);
    if (!err) {
        *out = p;
        return BRAID_OK;
    }
    run_page_close(p);
    char why[sizeof error->text];
    snprintf(why, sizeof why, "%s", error->text);
    return braid_fail(error, err, "--page: %.480s", why);
}

const char *run_page_address(const run_page *p) { return http_server_address(p->server); }

void run_page_tell(run_page *p, const report_event *event, double seconds) { run_board_tell(p->board, event, seconds); }

void run_page_close(run_page *p) {
    if (!p) return;
    http_server_free(p->server);
    run_board_free(p->board);
    http_keys_free(&p->keys);
    free(p);
}
