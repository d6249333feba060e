// braid sim --json (docs/simulator.md lists its members).
#include "cli/sim_inside.h"
#include "cli/figures.h"
#include "format/json.h"

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static void put_iterations(json_out *o, const sim_swarm_report *r) {
    json_out_open(o, "iterations", '[');
    for (uint32_t i = 0; i < r->iterations; i++) {
        const sim_swarm_iteration *t = &r->iteration[i];
        json_out_open(o, NULL, '{');
        json_out_u64(o, "iteration", t->iteration);
        json_out_double(o, "start_s", seconds(t->start_ns));
        json_out_double(o, "close_s", seconds(t->close_ns));
        json_out_double(o, "end_s", seconds(t->end_ns));
        json_out_u64(o, "microbatches", t->microbatches);
        json_out_u64(o, "crashes", t->crashes);
        json_out_u64(o, "joins", t->joins);
        json_out_u64(o, "leaves", t->leaves);
        json_out_u64(o, "repairs", t->repairs);
        json_out_double(o, "useful_s", seconds(t->useful_ns));
        json_out_double(o, "wasted_s", seconds(t->wasted_ns));
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_stages(json_out *o, const scenario *s, const sim_summary *u) {
    json_out_open(o, "stages", '[');
    for (uint16_t i = 0; i < u->stages; i++) {
        const sim_stage_summary *at = &u->stage[i];
        json_out_open(o, NULL, '{');
        json_out_u64(o, "stage", i);
        json_out_string(o, "name", s->stage[i].name);
        json_out_u64(o, "blocks", s->stage[i].blocks);
        json_out_u64(o, "parameters", s->stage[i].parameters);
        json_out_u64(o, "peers", at->peers);
        json_out_u64(o, "capacity", at->capacity);
        json_out_u64(o, "microbatches", at->microbatches);
        json_out_double(o, "compute", at->compute);
        json_out_double(o, "busy", at->busy);
        json_out_double(o, "up", at->up);
        json_out_double(o, "down", at->down);
        json_out_double(o, "need_up", at->need_up);
        json_out_double(o, "need_down", at->need_down);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_peers(json_out *o, const sim_swarm_report *r) {
    json_out_open(o, "peers", '[');
    for (uint32_t i = 0; i < r->peers; i++) {
        const sim_swarm_peer *p = &r->peer[i];
        json_out_open(o, NULL, '{');
        json_out_string(o, "name", p->name);
        json_out_bool(o, "data", p->data);
        if (p->ever_member)
            json_out_u64(o, "stage", p->stage);
        else
            json_out_null(o, "stage");
        json_out_bool(o, "alive", p->alive);
        json_out_double(o, "alive_s", seconds(p->up_ns));
        json_out_double(o, "busy_s", seconds(p->busy_ns));
        json_out_double(o, "up", p->up_share);
        json_out_double(o, "down", p->down_share);
        json_out_u64(o, "bytes_up", p->bytes_up);
        json_out_u64(o, "bytes_down", p->bytes_down);
        json_out_u64(o, "microbatches", p->microbatches);
        json_out_u64(o, "crashes", p->crashes);
        json_out_u64(o, "joins", p->joins);
        json_out_double(o, "useful_s", seconds(p->useful_ns));
        json_out_double(o, "wasted_s", seconds(p->wasted_ns));
        if (p->fetch_ns > 0)
            json_out_double(o, "fetch_s", seconds(p->fetch_ns));
        else
            json_out_null(o, "fetch_s");
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_bottleneck(json_out *o, const sim_summary *u) {
    json_out_open(o, "bottleneck", '{');
    json_out_string(o, "kind", sim_limit_name(u->limit));
    if (u->limit == SIM_LIMIT_DISTANCE)
        json_out_null(o, "stage");
    else
        json_out_u64(o, "stage", u->limit_stage);
    json_out_double(o, "share", u->limit_share);
    json_out_string(o, "text", u->text);
    json_out_close(o, '}');
}

static void put_routes(json_out *o, const sim_routes *r) {
    json_out_open(o, "routes", '{');
    json_out_double(o, "wanted", r->wanted);
    json_out_double(o, "units", r->units);
    json_out_double(o, "cost_ms", r->cost_ms);
    json_out_double(o, "least_ms", r->least_ms);
    json_out_u64(o, "choosers", r->choosers);
    json_out_double(o, "view_messages_per_minute", r->view_messages);
    json_out_double(o, "view_bytes_per_minute", r->view_bytes);
    json_out_double(o, "route_messages_per_minute", r->route_messages);
    json_out_double(o, "route_bytes_per_minute", r->route_bytes);
    json_out_close(o, '}');
}

static void put_plans(json_out *o, const sim_result *r) {
    json_out_open(o, "one_more_peer", '[');
    for (uint32_t i = 0; i < r->plans; i++) {
        const sim_plan *p = &r->plan[i];
        json_out_open(o, NULL, '{');
        json_out_u64(o, "stage", p->stage);
        json_out_string(o, "name", r->s->stage[p->stage].name);
        json_out_string(o, "like", r->s->peer[p->like].name);
        json_out_bool(o, "failed", p->failed);
        if (!p->failed) {
            json_out_double(o, "mean_s", p->mean_s);
            json_out_double(o, "tokens_per_s", p->tokens_per_s);
            json_out_double(o, "change", p->change);
            json_out_bool(o, "within_chance", sim_within_chance(&r->chance, p));
        }
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
    if (r->chance.seeds == 0) {
        json_out_null(o, "chance");
        return;
    }
    json_out_open(o, "chance", '{');
    json_out_u64(o, "seeds", r->chance.seeds);
    json_out_u64(o, "failed", r->chance.failed);
    json_out_double(o, "mean_s", r->chance.mean_s);
    json_out_double(o, "sd_s", r->chance.sd_s);
    json_out_close(o, '}');
}

bool sim_print_json(const sim_result *r) {
    const sim_summary *u = &r->summary;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "scenario", r->s->name);
    json_out_u64(&o, "seed", r->s->seed);
    json_out_double(&o, "mean_s", u->mean_s);
    json_out_double(&o, "sd_s", u->sd_s);
    json_out_double(&o, "worst_s", u->worst_s);
    json_out_double(&o, "pipeline_s", u->pipeline_s);
    json_out_double(&o, "update_s", u->update_s);
    json_out_double(&o, "tokens_per_s", u->tokens_per_s);
    json_out_double(&o, "wasted", u->wasted);
    put_bottleneck(&o, u);
    put_routes(&o, &r->routes);
    put_plans(&o, r);
    put_stages(&o, r->s, u);
    put_peers(&o, r->report);
    put_iterations(&o, r->report);
    json_out_double(&o, "simulated_s", seconds(r->report->virtual_ns));
    json_out_u64(&o, "events", r->report->events);
    json_out_u64(&o, "messages", r->report->messages);
    figures_put_hash(&o, r->report->hash);
    return figures_print_line(&o);
}
