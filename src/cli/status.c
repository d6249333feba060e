// braid status: the state records of a run or of a serving swarm, from its page's server.
#include "cli/cli.h"
#include "cli/http_get.h"
#include "cli/options.h"
#include "cli/run_page.h"
#include "format/peer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char examples[] = "braid status\n"
                               "braid status 127.0.0.1:8081 --json\n"
                               "braid status 192.168.1.5:8080 --key-file key.txt\n";

enum { STATUS_KEY = 512, STATUS_ID = 12 };

// ---- for people

// Texts come from another process and must not control the terminal.
static void print_text(const char *text) {
    for (; *text; text++) putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void print_place(const json *doc, const json_value *peer) {
    uint64_t first = 0, last = 0, stage = 0;
    if (json_u64(json_member(doc, peer, "stage"), &stage)) {
        bool leads = false;
        json_bool(json_member(doc, peer, "leader"), &leads);
        printf("stage %llu%s  ", (unsigned long long)stage, leads ? ", leader" : "");
        return;
    }
    bool serves = json_u64(json_member(doc, peer, "first_layer"), &first) &&
                  json_u64(json_member(doc, peer, "last_layer"), &last);
    if (serves) printf("layers %llu-%llu  ", (unsigned long long)first, (unsigned long long)last);
}

static void print_peers(const json *doc, const json_value *of, const char *key) {
    char line[PEER_STATE_LINE];
    const json_value *list = json_member(doc, of, key);
    if (!list || list->kind != JSON_ARRAY) return;
    for (const json_value *v = json_first(doc, list); v; v = json_next(doc, v)) {
        peer_state s;
        peer_state_get(doc, v, &s);
        peer_state_line(&s, line);
        char id[STATUS_ID + 1];
        snprintf(id, sizeof id, "%s", s.id ? s.id : "?");
        printf("  ");
        print_text(id);
        printf("  ");
        print_place(doc, v);
        print_text(line);
        putchar('\n');
    }
}

static void print_run(const json *doc, const json_value *run) {
    char line[PEER_STATE_LINE];
    peer_state s;
    uint64_t iteration = 0, of = 0;
    double loss = 0;
    const char *name = json_string(json_member(doc, run, "name"));
    peer_state_get(doc, run, &s);
    peer_state_line(&s, line);
    print_text(name ? name : "training run");
    printf(": ");
    print_text(line);
    json_u64(json_member(doc, run, "iteration"), &iteration);
    json_u64(json_member(doc, run, "of"), &of);
    printf("\niteration %llu of %llu", (unsigned long long)iteration, (unsigned long long)of);
    if (json_double(json_member(doc, run, "loss"), &loss)) printf(", loss %.4f", loss);
    printf("\npeers\n");
    print_peers(doc, run, "peers");
    if (json_first(doc, json_member(doc, run, "gone"))) printf("gone\n");
    print_peers(doc, run, "gone");
}

static void print_service(const json *doc, const json_value *root) {
    char line[PEER_STATE_LINE];
    const json_value *service = json_member(doc, root, "service"), *swarm = json_member(doc, root, "swarm");
    const char *name = json_string(json_member(doc, json_member(doc, root, "model"), "id"));
    bool in_swarm = swarm && swarm->kind == JSON_OBJECT, ready = false;
    peer_state s;
    peer_state_get(doc, in_swarm ? swarm : service, &s);
    json_bool(json_member(doc, service, "ready"), &ready);
    if (!s.blocker) s.blocker = json_string(json_member(doc, service, "blocker"));
    s.state = ready ? "ready" : "not ready";
    peer_state_line(&s, line);
    print_text(name ? name : "model");
    printf(": ");
    print_text(line);
    putchar('\n');
    if (!in_swarm) return;
    printf("peers\n");
    print_peers(doc, swarm, "peers");
    if (json_first(doc, json_member(doc, swarm, "gone"))) printf("gone\n");
    print_peers(doc, swarm, "gone");
}

static braid_err print_document(const char *text, size_t length, braid_error *error) {
    json *doc = NULL;
    braid_err err = json_parse(text, length, &doc, error);
    if (err) return err;
    const json_value *root = json_root(doc), *run = json_member(doc, root, "run");
    bool is_run = run && run->kind == JSON_OBJECT;
    bool serves = json_member(doc, root, "service") != NULL;
    if (is_run)
        print_run(doc, run);
    else if (serves)
        print_service(doc, root);
    else
        err = braid_fail(error, BRAID_FORMAT, "the answer is no state; is this the address of braid serve or --page?");
    json_free(doc);
    return err;
}

// ---- the verb

static braid_err read_key(const char *path, char key[STATUS_KEY], braid_error *error) {
    key[0] = 0;
    if (!path || !*path) return BRAID_OK;
    FILE *file = fopen(path, "re");
    if (!file) return braid_fail(error, BRAID_IO, "cannot open %.200s", path);
    size_t n = fread(key, 1, STATUS_KEY - 1, file);
    fclose(file);
    key[n] = 0;
    key[strcspn(key, " \t\r\n")] = 0;
    if (!*key) return braid_fail(error, BRAID_CONFIG, "%.200s is empty; it needs a key in its first line", path);
    return BRAID_OK;
}

static braid_err show(const char *address, const char *key_file, bool raw, braid_error *error) {
    char host[256], key[STATUS_KEY], *body = NULL;
    size_t length = 0;
    http_get_request request = {.host = host, .path = "/v1/swarm", .key = key};
    char place[320];
    if (strncmp(address, "https://", 8) == 0)
        return braid_fail(error, BRAID_CONFIG,
                          "https is not supported; give an address without TLS, or ask for "
                          "%.200s/v1/swarm with another program",
                          address);
    if (strncmp(address, "http://", 7) == 0) address += 7;
    snprintf(place, sizeof place, "%.*s", (int)strcspn(address, "/"), address);  // as browsers show it
    braid_err err = run_page_split(place, host, &request.port, error);
    if (!err) err = read_key(key_file, key, error);
    if (!err) err = http_get(&request, &body, &length, error);
    if (!err && raw)
        printf("%s\n", body);
    else if (!err)
        err = print_document(body, length, error);
    free(body);
    return err;
}

int cli_status(int argc, char **argv) {
    const char *key_file = NULL;
    bool raw = false;
    option table[] = {
        {"json", OPTION_SWITCH, &raw, .help = "print the document of /v1/swarm"},
        {"key-file", OPTION_TEXT, &key_file, .unit = "FILE", .help = "file with the server's key in its first line",
         .fallback = "no key"},
    };
    options o = {.verb = "status",
                 .arguments = "[ADDRESS]",
                 .summary = "Shows the state of a run (--page) or of a model that is served, and of each peer.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .max_given = 1};
    int code = CLI_OK;
    braid_error error = {0};
    if (!options_parse(&o, argc, argv, &code)) return code;
    braid_err err = show(o.given_count ? o.given[0] : RUN_PAGE_ADDRESS, key_file, raw, &error);
    if (err) code = cli_complain(err == BRAID_CONFIG ? CLI_USAGE : CLI_FAILED, "status", "%s", error.text);
    options_close(&o);
    return code;
}
