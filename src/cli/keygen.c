// braid keygen: makes a peer's key.
#include "cli/cli.h"
#include "cli/options.h"
#include "net/identity.h"

#include <stdio.h>

static const char examples[] = "braid keygen --out peer.key\n"
                               "braid node --identity peer.key --join TICKET\n";

static int keygen(const char *path, bool replace) {
    braid_error error = {0};
    identity *id = NULL;
    braid_err err = identity_new(&id, &error);
    if (!err) err = identity_save(id, path, replace, &error);
    if (err) {
        identity_free(id);
        return cli_complain(CLI_FAILED, "keygen", "%s", error.text);
    }
    char hex[2 * BRAID_ID_BYTES + 1];
    braid_id own = identity_id(id);
    identity_free(id);
    id_hex(own.bytes, BRAID_ID_BYTES, hex);
    // the id alone on stdout, for scripts
    fprintf(stderr, "The key is in %s. Keep it secret, because it proves this peer's identity. The peer's id:\n", path);
    printf("%s\n", hex);
    return CLI_OK;
}

int cli_keygen(int argc, char **argv) {
    const char *path = "peer.key";
    bool replace = false;
    option table[] = {
        {"out", OPTION_TEXT, &path, .unit = "PATH", .help = "file for the key (PEM, readable only by its owner)"},
        {"force", OPTION_SWITCH, &replace, .help = "replace an existing key; its peer id is lost for good"},
    };
    options o = {.verb = "keygen",
                 .summary = "Creates the Ed25519 key of a peer and prints the peer's id.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = keygen(path, replace);
    options_close(&o);
    return code;
}
