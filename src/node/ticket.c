#include "node/ticket.h"

#include "base/sha256.h"
#include "node/address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char ticket_prefix[] = "braid1.", serving_prefix[] = "serve1.";
_Static_assert(sizeof ticket_prefix == sizeof serving_prefix, "both kinds have the same length");
enum { PREFIX = sizeof ticket_prefix - 1, ID_TEXT = 2 * BRAID_ID_BYTES, CHECK_BYTES = 4, CHECK_TEXT = 2 * CHECK_BYTES };

static void ticket_check(const ticket *t, uint8_t check[CHECK_BYTES]) {
    sha256 s;
    sha256_init(&s);
    sha256_update(&s, t->leader.bytes, sizeof t->leader.bytes);
    sha256_update(&s, t->address, strlen(t->address));
    braid_hash hash = sha256_final(&s);
    memcpy(check, hash.bytes, CHECK_BYTES);
}

void ticket_format(const ticket *t, char text[TICKET_MAX_TEXT]) {
    char id[ID_TEXT + 1], check_text[CHECK_TEXT + 1];
    uint8_t check[CHECK_BYTES];
    ticket_check(t, check);
    id_hex(t->leader.bytes, BRAID_ID_BYTES, id);
    id_hex(check, CHECK_BYTES, check_text);
    snprintf(text, TICKET_MAX_TEXT, "%s%s.%s@%s", t->serves ? serving_prefix : ticket_prefix, id, check_text, t->address);
}

static braid_err malformed(braid_error *error, const char *why) {
    return braid_fail(error, BRAID_ARGUMENT, "the ticket is malformed: %s; copy the whole line that the leader printed", why);
}

braid_err ticket_parse(const char *text, ticket *out, braid_error *error) {
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) length--;
    out->serves = length >= PREFIX && strncmp(text, serving_prefix, PREFIX) == 0;
    if (!out->serves && (length < PREFIX || strncmp(text, ticket_prefix, PREFIX) != 0)) {
        if (length > 5 && strncmp(text, "braid", 5) == 0 && isdigit((unsigned char)text[5]))
            return malformed(error, "it is of another version of braid");
        return malformed(error, "it does not begin with \"braid1.\" (a run) or \"serve1.\" (a served model)");
    }
    const char *at = text + PREFIX, *end = text + length;
    if (end - at < ID_TEXT + 1 + CHECK_TEXT + 1) return malformed(error, "it is too short");
    uint8_t given[CHECK_BYTES], wanted[CHECK_BYTES];
    if (!id_unhex(at, BRAID_ID_BYTES, out->leader.bytes) || at[ID_TEXT] != '.')
        return malformed(error, "the leader's id is not 64 hex digits");
    at += ID_TEXT + 1;
    if (!id_unhex(at, CHECK_BYTES, given) || at[CHECK_TEXT] != '@')
        return malformed(error, "there is no \"@host:port\" after the id");
    at += CHECK_TEXT + 1;
    if (end - at >= WIRE_MAX_ADDRESS) return malformed(error, "the address is too long");
    memcpy(out->address, at, (size_t)(end - at));
    out->address[end - at] = 0;
    braid_error why = {0};
    if (!address_list_check(out->address, &why)) return malformed(error, strstr(why.text, "fe80::") ? "its address is a link-local one, which other machines cannot use" : "the address is not host:port");
    ticket_check(out, wanted);
    if (memcmp(given, wanted, CHECK_BYTES) != 0) return malformed(error, "a character was lost or changed");
    return BRAID_OK;
}
