// Readers for the maps and lists of a scenario. Their meaning is in the other files.
#include "sim/scenario_read.h"

#include "format/suggest.h"
#include "sim/places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t scaled(double value, double unit) { return (uint64_t)(value * unit + 0.5); }

// Names appear in lists, traces and tables, between blanks, so their characters are limited.
static braid_err read_name(const scenario_reader *r, const yaml_node *node, const char *name, char *out) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    braid_err code = yaml_read_text(r->file, node, name, out, SCENARIO_MAX_NAME, r->error);
    if (code != BRAID_OK) return code;
    if (out[0] != 0 && out[strspn(out, allowed)] == 0) return BRAID_OK;
    return yaml_fail(r->file, node, r->error, "%s: '%s' is no name: use letters, digits, '-', '_' and '.'", name, out);
}

static braid_err read_number(const scenario_reader *r, const scenario_key *k, const yaml_node *node, const char *name) {
    uint64_t whole = 0;
    double real = 0;
    braid_err code = BRAID_OK;
    if (k->kind == KEY_COUNT) {
        code = yaml_read_count(r->file, node, name, (uint64_t)k->least, (uint64_t)k->most, &whole, r->error);
        if (code == BRAID_OK) *(uint32_t *)k->into = (uint32_t)whole;
        return code;
    }
    code = yaml_read_real(r->file, node, name, k->least, k->most, &real, r->error);
    if (code != BRAID_OK) return code;
    switch (k->kind) {
    case KEY_MS: *(uint64_t *)k->into = scaled(real, 1e6); break;
    case KEY_SECONDS: *(uint64_t *)k->into = scaled(real, 1e9); break;
    case KEY_MBPS: *(uint64_t *)k->into = scaled(real, 1e6); break;
    case KEY_GIGA: *(double *)k->into = real * 1e9; break;
    default: *(double *)k->into = real; break;
    }
    return BRAID_OK;
}

static braid_err read_key(const scenario_reader *r, const scenario_key *k, const yaml_node *node, const char *where) {
    char name[SCENARIO_MAX_WHERE + 40];
    snprintf(name, sizeof name, "%s%s%s", where, *where ? "." : "", k->name);
    switch (k->kind) {
    case KEY_NODE: *(const yaml_node **)k->into = node; return BRAID_OK;
    case KEY_NAME: return read_name(r, node, name, k->into);
    case KEY_SWITCH: return yaml_read_bool(r->file, node, name, k->into, r->error);
    case KEY_SEED: return yaml_read_count(r->file, node, name, 0, UINT64_MAX, k->into, r->error);
    default: return read_number(r, k, node, name);
    }
}

braid_err scenario_read_keys(const scenario_reader *r, const yaml_node *map, const char *where,
                             const scenario_key *keys, size_t count) {
    const char *known[SCENARIO_MAX_KEYS];
    BRAID_ASSERT(count <= SCENARIO_MAX_KEYS);
    for (size_t i = 0; i < count; i++) known[i] = keys[i].name;
    braid_err code = yaml_read_map(r->file, map, where, r->error);
    if (code == BRAID_OK) code = yaml_check_keys(r->file, map, where, known, count, r->error);
    for (size_t i = 0; i < count && code == BRAID_OK; i++) {
        const yaml_node *node = yaml_find(map, keys[i].name);
        if (node != NULL) code = read_key(r, &keys[i], node, where);
    }
    return code;
}

braid_err scenario_read_list(scenario_reader *r, const yaml_node *node, const char *where, uint32_t most,
                             scenario_item_fn read) {
    if (node->kind != YAML_LIST)
        return yaml_fail(r->file, node, r->error, "%s must be a list: begin each of its items with '- '", where);
    if (node->children > most)
        return yaml_fail(r->file, node, r->error, "%s has %zu items, at most %u are allowed", where, node->children,
                         most);
    uint32_t index = 0;
    braid_err code = BRAID_OK;
    for (const yaml_node *item = node->first; item != NULL && code == BRAID_OK; item = item->next)
        code = read(r, item, index++);
    return code;
}

void scenario_where(const yaml_node *item, const char *list, uint32_t index, char where[SCENARIO_MAX_WHERE]) {
    const yaml_node *name = item->kind == YAML_MAP ? yaml_find(item, "name") : NULL;
    if (name != NULL && name->kind == YAML_SCALAR && name->text[0] != 0)
        snprintf(where, SCENARIO_MAX_WHERE, "%s[%.32s]", list, name->text);
    else
        snprintf(where, SCENARIO_MAX_WHERE, "%s[%u]", list, index + 1);
}

// ---- other files

static braid_err read_whole(const scenario_reader *r, const yaml_node *node, const char *name, const char *path,
                            char **text, size_t *length) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        return yaml_fail(r->file, node, r->error, "%s: cannot read '%.200s': %s; name a file, relative to this one",
                         name, path, strerror(errno));
    }
    *text = malloc(YAML_MAX_BYTES + 1);
    *length = *text != NULL ? fread(*text, 1, YAML_MAX_BYTES + 1, stream) : 0;
    int wrong = ferror(stream) ? errno : 0;
    fclose(stream);
    if (*text == NULL) return braid_fail(r->error, BRAID_MEMORY, "out of memory");
    if (wrong == 0 && *length <= YAML_MAX_BYTES) return BRAID_OK;
    free(*text);
    *text = NULL;
    if (wrong != 0)
        return yaml_fail(r->file, node, r->error, "%s: cannot read '%.200s': %s; name a file, relative to this one",
                         name, path, strerror(wrong));
    return yaml_fail(r->file, node, r->error, "%s: '%.200s' is larger than %d KiB", name, path, YAML_MAX_BYTES >> 10);
}

braid_err scenario_read_file(const scenario_reader *r, const yaml_node *node, const char *name,
                             char path[SCENARIO_MAX_PATH], char **text, size_t *length) {
    char written[SCENARIO_MAX_PATH];
    *text = NULL;
    braid_err code = yaml_read_text(r->file, node, name, written, sizeof written, r->error);
    if (code != BRAID_OK) return code;
    if (r->base_dir == NULL) return yaml_fail(r->file, node, r->error, "%s: no other file can be named here", name);
    bool whole = written[0] == '/' || strcmp(r->base_dir, ".") == 0;
    int needed = whole ? snprintf(path, SCENARIO_MAX_PATH, "%s", written)
                       : snprintf(path, SCENARIO_MAX_PATH, "%s/%s", r->base_dir, written);
    if (needed < 0 || needed >= SCENARIO_MAX_PATH)
        return yaml_fail(r->file, node, r->error, "%s is longer than %d bytes", name, SCENARIO_MAX_PATH - 1);
    return read_whole(r, node, name, path, text, length);
}

// ---- places and peers by name

enum { MAX_PLACES = 64 };

static uint32_t list_places(const char *names[MAX_PLACES]) {
    uint32_t count = place_count() < MAX_PLACES ? place_count() : MAX_PLACES;
    for (uint32_t i = 0; i < count; i++) names[i] = place_name(i);
    return count;
}

static bool find_place(const char *name, uint16_t *place) {
    const char *names[MAX_PLACES];
    uint32_t count = list_places(names);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *place = (uint16_t)i;
        return true;
    }
    return false;
}

braid_err scenario_read_place(const scenario_reader *r, const yaml_node *node, const char *name, uint16_t *place) {
    char text[SCENARIO_MAX_NAME], all[256] = "";
    const char *names[MAX_PLACES];
    braid_err code = yaml_read_text(r->file, node, name, text, sizeof text, r->error);
    if (code != BRAID_OK || find_place(text, place)) return code;
    uint32_t count = list_places(names);
    const char *near = suggest_name(text, names, count);
    if (near != NULL)
        return yaml_fail(r->file, node, r->error, "%s: no place '%s' is known; did you mean '%s'?", name, text, near);
    for (uint32_t i = 0; i < count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? ", " : "", names[i]);
    return yaml_fail(r->file, node, r->error,
                     "%s: no place '%s' is known; choose one of %s, or leave it out and write latencies under 'links:'",
                     name, text, all);
}

uint32_t scenario_find_peer(const scenario *s, const char *name, const char **near) {
    const char *names[SCENARIO_MAX_PEERS];
    for (uint32_t i = 0; i < s->peers; i++) {
        if (strcmp(s->peer[i].name, name) == 0) return i;
        names[i] = s->peer[i].name;
    }
    *near = suggest_name(name, names, s->peers);
    return UINT32_MAX;
}

// Adds the peers that `name` means: one peer, else the peers of a group, of a machine, of a place.
// False: none.
static bool add_named(const scenario *s, const char *name, scenario_set *out) {
    const char *near = NULL;
    uint32_t peer = scenario_find_peer(s, name, &near);
    if (peer != UINT32_MAX) {
        scenario_set_add(out, peer);
        return true;
    }
    bool group = false, machine = false, any = false;
    uint16_t place = SCENARIO_NOWHERE;
    for (uint32_t i = 0; i < s->peers; i++) group = group || strcmp(s->peer[i].group, name) == 0;
    for (uint32_t i = 0; i < s->machines; i++) machine = machine || strcmp(s->machine[i].name, name) == 0;
    if (!group && !machine && !find_place(name, &place)) return false;
    for (uint32_t i = 0; i < s->peers; i++) {
        const scenario_machine *m = &s->machine[s->peer[i].machine];
        bool fits = group     ? strcmp(s->peer[i].group, name) == 0
                    : machine ? strcmp(m->name, name) == 0
                              : m->place == place;
        if (fits) scenario_set_add(out, i);
        any = any || fits;
    }
    return any;
}

// The nearest name of a peer, group or place, or NULL.
static const char *nearest(const scenario *s, const char *name) {
    const char *names[2 * SCENARIO_MAX_PEERS + MAX_PLACES];
    size_t count = 0;
    for (uint32_t i = 0; i < s->peers; i++) {
        names[count++] = s->peer[i].group;
        names[count++] = s->peer[i].name;
    }
    count += list_places(names + count);
    return suggest_name(name, names, count);
}

static braid_err read_one(const scenario_reader *r, const yaml_node *node, const char *name, scenario_set *out) {
    char text[SCENARIO_MAX_NAME];
    uint16_t place = 0;
    braid_err code = yaml_read_text(r->file, node, name, text, sizeof text, r->error);
    if (code != BRAID_OK || add_named(r->s, text, out)) return code;
    if (find_place(text, &place))
        return yaml_fail(r->file, node, r->error, "%s: no peer is in %s: give some 'place: %s', or name others", name,
                         text, text);
    const char *near = nearest(r->s, text);
    if (near != NULL)
        return yaml_fail(r->file, node, r->error, "%s: no peer is called '%s'; did you mean '%s'?", name, text, near);
    return yaml_fail(r->file, node, r->error,
                     "%s: no peer is called '%s': name peers, groups, machines or places of this file", name, text);
}

braid_err scenario_read_who(const scenario_reader *r, const yaml_node *node, const char *name, scenario_set *out) {
    *out = (scenario_set){0};
    if (node->kind != YAML_LIST) return read_one(r, node, name, out);
    if (node->children == 0) return yaml_fail(r->file, node, r->error, "%s is an empty list: name a peer", name);
    if (node->children > SCENARIO_MAX_PEERS)
        return yaml_fail(r->file, node, r->error, "%s names more than %d: name a group", name, SCENARIO_MAX_PEERS);
    braid_err code = BRAID_OK;
    for (const yaml_node *item = node->first; item != NULL && code == BRAID_OK; item = item->next)
        code = read_one(r, item, name, out);
    return code;
}
