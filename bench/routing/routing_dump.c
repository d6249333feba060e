#include "bench/routing/routing_dump.h"

#include "format/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_peers(json_out *o, const routing_instance *instance) {
    json_out_open(o, "peers", '[');
    for (uint32_t i = 0; i < instance->problem.peers; i++) {
        json_out_open(o, NULL, '{');
        json_out_string(o, "name", instance->name[i]);
        json_out_u64(o, "stage", instance->problem.peer[i].stage);
        json_out_u64(o, "capacity", instance->problem.peer[i].capacity);
        json_out_bool(o, "source", instance->problem.peer[i].stage == 0);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_links(json_out *o, const routing_instance *instance) {
    json_out_open(o, "links", '[');
    for (uint32_t l = 0; l < instance->problem.links; l++) {
        const plan_link *link = &instance->problem.link[l];
        json_out_open(o, NULL, '{');
        json_out_string(o, "from", instance->name[link->from]);
        json_out_string(o, "to", instance->name[link->to]);
        json_out_double(o, "cost", (double)link->cost / ROUTING_SCALE);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_paths(json_out *o, const routing_instance *instance, int64_t *flow, uint32_t *path) {
    json_out_open(o, "paths", '[');
    for (uint32_t k = 0; k < instance->sources; k++) {
        int64_t *own = flow + (size_t)k * instance->problem.links;
        uint32_t length;
        while ((length = plan_take_path(&instance->problem, k, own, path)) > 0) {
            json_out_open(o, NULL, '[');
            for (uint32_t i = 0; i < length; i++) json_out_string(o, NULL, instance->name[path[i]]);
            json_out_close(o, ']');
        }
    }
    json_out_close(o, ']');
}

static braid_err put_systems(json_out *o, const routing_instance *instance, const routing_found *found,
                             uint32_t count) {
    size_t bytes = (size_t)instance->sources * instance->problem.links * sizeof(int64_t);
    int64_t *flow = malloc(bytes);
    uint32_t *path = calloc(instance->problem.stages + 2, sizeof *path);
    json_out_open(o, "systems", '{');
    for (uint32_t s = 0; flow != NULL && path != NULL && s < count; s++) {
        memcpy(flow, found[s].flow, bytes);
        json_out_open(o, found[s].system, '{');
        put_paths(o, instance, flow, path);
        json_out_u64(o, "messages", found[s].messages);
        json_out_u64(o, "bytes", found[s].bytes);
        json_out_u64(o, "rounds", found[s].rounds);
        json_out_close(o, '}');
    }
    json_out_close(o, '}');
    braid_err err = flow == NULL || path == NULL ? BRAID_MEMORY : BRAID_OK;
    free(flow);
    free(path);
    return err;
}

static braid_err write_file(const char *path, const char *text, size_t length, braid_error *error) {
    FILE *f = fopen(path, "w");
    if (f == NULL) return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
    bool good = fwrite(text, 1, length, f) == length && fputc('\n', f) != EOF;
    good &= fclose(f) == 0;
    return good ? BRAID_OK : braid_fail(error, BRAID_IO, "cannot write all of %s: %s", path, strerror(errno));
}

braid_err routing_dump(const routing_instance *instance, const routing_found *found, uint32_t count, const char *path,
                       braid_error *error) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_peers(&o, instance);
    put_links(&o, instance);
    braid_err err = put_systems(&o, instance, found, count);
    json_out_close(&o, '}');
    size_t length = 0;
    char *text = json_out_take(&o, &length);
    if (text == NULL || err) {
        free(text);
        return braid_fail(error, BRAID_MEMORY, "no memory to write %s", path);
    }
    err = write_file(path, text, length, error);
    free(text);
    return err;
}
