// The files of braid-bench t6 --dump, for independent checks.
#include "bench/cli/t6_inside.h"
#include "format/json.h"
#include "sim/places.h"
#include "bench/routing/routing_dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 1024 };

static braid_err path_of(const t6_bench *b, uint64_t seed, const char *what, char path[MAX_PATH], braid_error *error) {
    int length = snprintf(path, MAX_PATH, "%s/t6-seed%" PRIu64 "-%s.json", b->dump, seed, what);
    if (length >= 0 && length < MAX_PATH) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "the path of --dump is longer than %d bytes", MAX_PATH);
}

braid_err t6_dump_paths(const t6_bench *b, uint64_t seed, t6_arrangement arrangement, const routing_instance *instance,
                        const t6_found *found, braid_error *error) {
    char path[MAX_PATH];
    braid_err err = path_of(b, seed, t6_arrangement_names[arrangement], path, error);
    if (err) return err;
    routing_found all[T6_SYSTEMS];
    uint32_t count = 0;
    for (t6_system s = 0; s < T6_SYSTEMS; s++)
        if (found[s].there)
            all[count++] =
                (routing_found){t6_system_names[s], found[s].flow, found[s].messages, found[s].bytes, found[s].rounds};
    return routing_dump(instance, all, count, path, error);
}

static void put_u64(json_out *o, const char *key, int64_t value) { json_out_u64(o, key, (uint64_t)value); }

static void put_peers(json_out *o, const t6_world *w) {
    json_out_open(o, "peers", '[');
    for (uint32_t i = 0; i < T6_PEERS; i++) {
        json_out_open(o, NULL, '{');
        json_out_string(o, "name", w->name[i]);
        json_out_string(o, "place", place_name(w->place[i]));
        put_u64(o, "forward_ns", w->peer[i].forward_ns);
        put_u64(o, "backward_ns", w->peer[i].backward_ns);
        put_u64(o, "home_ns", w->peer[i].home_ns);
        json_out_u64(o, "capacity", w->peer[i].capacity);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_links(json_out *o, const t6_world *w) {
    json_out_open(o, "links", '[');
    for (uint32_t i = 0; i < T6_PEERS; i++)
        for (uint32_t j = 0; j < T6_PEERS; j++) {
            if (i == j) continue;
            json_out_open(o, NULL, '{');
            json_out_string(o, "from", w->name[i]);
            json_out_string(o, "to", w->name[j]);
            put_u64(o, "latency_ns", w->latency_ns[i * T6_PEERS + j]);
            put_u64(o, "transfer_ns", w->transfer_ns[i * T6_PEERS + j]);
            json_out_close(o, '}');
        }
    json_out_close(o, ']');
}

static void put_times(json_out *o, const t6_found (*found)[T6_SYSTEMS]) {
    json_out_open(o, "times", '{');
    for (t6_arrangement a = 0; a < T6_ARRANGEMENTS; a++) {
        json_out_open(o, t6_arrangement_names[a], '{');
        for (t6_system s = 0; s < T6_SYSTEMS; s++) {
            if (!found[a][s].there) continue;
            json_out_open(o, t6_system_names[s], '{');
            json_out_u64(o, "microbatches", found[a][s].time.microbatches);
            put_u64(o, "pipeline_ns", found[a][s].time.pipeline_ns);
            put_u64(o, "weights_ns", found[a][s].time.weights_ns);
            json_out_close(o, '}');
        }
        json_out_close(o, '}');
    }
    json_out_close(o, '}');
}

static braid_err write_text(const char *path, const char *text, braid_error *error) {
    FILE *f = fopen(path, "w");
    if (f == NULL) return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
    bool good = fprintf(f, "%s\n", text) > 0;
    good &= fclose(f) == 0;
    return good ? BRAID_OK : braid_fail(error, BRAID_IO, "cannot write all of %s: %s", path, strerror(errno));
}

braid_err t6_dump_network(const t6_bench *b, uint64_t seed, const t6_world *world, const t6_found (*found)[T6_SYSTEMS],
                          braid_error *error) {
    char path[MAX_PATH];
    braid_err err = path_of(b, seed, "network", path, error);
    if (err) return err;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "link", b->settings.link == PIPELINE_PAIR ? "pair" : "peer");
    put_peers(&o, world);
    put_links(&o, world);
    put_times(&o, found);
    json_out_close(&o, '}');
    char *text = json_out_take(&o, NULL);
    err = text == NULL ? braid_fail(error, BRAID_MEMORY, "no memory to write %s", path) : write_text(path, text, error);
    free(text);
    return err;
}
