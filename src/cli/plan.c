// braid plan: the memory of a run, stage by stage, without starting it.
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/options.h"
#include "format/quantity.h"
#include "cli/plan_whole.h"
#include "node/plan.h"
#include "train/byte_sum.h"

#include <stdio.h>

static const char examples[] = "braid plan RUN.yaml\n"
                               "braid plan RUN.yaml --max-memory 8G\n"
                               "braid plan RUN.yaml --max-memory 2G --threads 4 --json\n"
                               "braid plan RUN.yaml --max-memory 2G --whole --plot timeline.svg\n";

enum { PLAN_MAX_THREADS = 1024 };

typedef struct plan_flags {
    uint64_t threads, max_memory;
    const char *profile, *plot;
    bool json, whole;
} plan_flags;

// A stage with both choices of the description: [0] keeps every activation, [1] only the input, and
// recomputes the rest.
typedef struct plan_stage {
    stage_shape shape;
    worker_sizes sizes[2];
    uint32_t capacity[2];  // with max_memory
} plan_stage;

typedef struct plan {
    run_config run;
    plan_flags flags;
    plan_stage stage[WIRE_MAX_STAGES];
    worker_sizes solo;
} plan;

// --- measuring

static braid_err measure_stage(plan *p, uint32_t number, braid_error *error) {
    plan_stage *s = &p->stage[number];
    braid_err err = BRAID_OK;
    for (int again = 0; again < 2 && !err; again++) {
        worker_config config;
        plan_stage_worker(&p->run, number, 1, &config);
        s->shape = config.shape;
        config.shape.recompute = again == 1;
        config.threads = (unsigned)p->flags.threads;
        err = worker_measure_sizes(&config, &s->sizes[again], error);
        if (!err && p->flags.max_memory)
            s->capacity[again] = worker_fitting_capacity(&config, p->flags.max_memory, p->run.microbatches);
    }
    return err;
}

static braid_err measure(plan *p, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < p->run.stages && !err; i++) err = measure_stage(p, i, error);
    worker_config solo = {.model = p->run.model, .recipe = p->run.recipe, .capacity = 1, .alone = true};
    solo.microbatches = p->run.microbatches;
    solo.threads = (unsigned)p->flags.threads;
    run_solo_shape(&p->run, &solo.shape);
    return err ? err : worker_measure_sizes(&solo, &p->solo, error);
}

// --- text

static void print_size(uint64_t bytes) {
    char text[QUANTITY_TEXT];
    printf(" %10s", quantity_size_text(bytes, text));
}

static void print_layers(const stage_shape *shape) {
    char text[32];
    uint32_t first = shape->layer_begin, end = shape->layer_end;
    if (first == end)
        snprintf(text, sizeof text, "ends");
    else
        snprintf(text, sizeof text, "%u-%u%s", first, end - 1, shape->ends ? " + ends" : "");
    printf(" %-14s", text);
}

static void print_stage(const plan *p, uint32_t number) {
    const plan_stage *s = &p->stage[number];
    char count[QUANTITY_TEXT];
    printf("%5u", number);
    print_layers(&s->shape);
    printf(" %10s", quantity_count_text((double)s->sizes[0].parameters, count));
    print_size(s->sizes[0].weights);
    print_size(s->sizes[0].optimizer);
    print_size(s->sizes[0].gradients);
    for (int again = 0; again < 2; again++) {
        const worker_sizes *z = &s->sizes[again];
        print_size(z->work);
        print_size(z->microbatch);
        if (p->flags.max_memory)
            printf(" %6u", s->capacity[again]);
        else
            print_size(z->total);
    }
    putchar('\n');
}

// Bytes of a microbatch and of an iteration with each codec.
static void print_traffic(const plan *p) {
    const run_config *run = &p->run;
    uint64_t values = (uint64_t)run->sequences * run->tokens * run->model.dim, largest = 0;
    char text[QUANTITY_TEXT], more[QUANTITY_TEXT], less[QUANTITY_TEXT];
    for (uint32_t i = 0; i < run->stages; i++)
        if (p->stage[i].sizes[0].parameters > largest) largest = p->stage[i].sizes[0].parameters;
    printf("\nBetween two stages a microbatch sends %s forward and %s backward",
           quantity_size_text(run_activation_bytes(run), text), quantity_size_text(run_gradient_bytes(run), more));
    for (uint32_t c = 0; c < TENSOR_CODECS; c++)
        printf("%s%s %s", c == 0 ? " (swarm.links: " : ", ", tensor_codec_names[c],
               quantity_size_text(tensor_codec_bytes((tensor_codec)c, values), text));
    printf(").\nMembers of the largest stage exchange sums of ");
    if (run->recipe.reproducible)
        printf("at most %s and results of %s.\n", quantity_size_text(8 * largest, text),
               quantity_size_text(4 * largest, more));
    else
        printf("%s and as much of results (swarm.sums: exact %s, int8 %s).\n",
               quantity_size_text(run->recipe.byte_sums ? byte_sum_bytes(largest) : 4 * largest, text),
               quantity_size_text(4 * largest, more), quantity_size_text(byte_sum_bytes(largest), less));
}

static void print_plan(const plan *p) {
    const run_config *run = &p->run;
    char text[QUANTITY_TEXT];
    printf("Run %s: microbatches of %u x %u tokens, %s sums; %s.\n\n", run->name, run->sequences, run->tokens,
           run->recipe.reproducible ? "exact"
           : run->recipe.byte_sums  ? "int8"
                                    : "fp32",
           run->recompute ? "activations are recomputed in backward" : "activations are kept");
    printf("%75s%s\n", "",
           p->flags.max_memory ? "kept                           recomputed"
                               : "kept                               recomputed");
    printf("stage layers         parameters    weights  optimizer  gradients");
    for (int again = 0; again < 2; again++)
        printf("       work microbatch %s", p->flags.max_memory ? " holds" : "  with one");
    printf("\n");
    for (uint32_t i = 0; i < run->stages; i++) print_stage(p, i);
    if (p->flags.max_memory)
        printf("\n'holds': microbatches that fit into %s at once, at most the run's %u.\n",
               quantity_size_text(p->flags.max_memory, text), run->microbatches);
    if (run->stages > 1) print_traffic(p);
    printf("\nbraid train --solo needs %s.\n", quantity_size_text(p->solo.total, text));
}

// --- JSON

static void put_choice(json_out *o, const plan *p, const plan_stage *s, int again) {
    json_out_open(o, again ? "recomputed" : "kept", '{');
    json_out_u64(o, "work_bytes", s->sizes[again].work);
    json_out_u64(o, "microbatch_bytes", s->sizes[again].microbatch);
    json_out_u64(o, "total_bytes", s->sizes[again].total);
    if (p->flags.max_memory) json_out_u64(o, "capacity", s->capacity[again]);
    json_out_close(o, '}');
}

static bool put_plan(const plan *p) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "name", p->run.name);
    json_out_bool(&o, "recompute", p->run.recompute);
    if (p->flags.max_memory) json_out_u64(&o, "max_memory_bytes", p->flags.max_memory);
    json_out_u64(&o, "solo_bytes", p->solo.total);
    json_out_open(&o, "stages", '[');
    for (uint32_t i = 0; i < p->run.stages; i++) {
        const plan_stage *s = &p->stage[i];
        json_out_open(&o, NULL, '{');
        json_out_u64(&o, "stage", i);
        json_out_u64(&o, "layer_begin", s->shape.layer_begin);
        json_out_u64(&o, "layer_end", s->shape.layer_end);
        json_out_bool(&o, "ends", s->shape.ends);
        json_out_u64(&o, "parameters", s->sizes[0].parameters);
        json_out_u64(&o, "weight_bytes", s->sizes[0].weights);
        json_out_u64(&o, "optimizer_bytes", s->sizes[0].optimizer);
        json_out_u64(&o, "gradient_bytes", s->sizes[0].gradients);
        for (int again = 0; again < 2; again++) put_choice(&o, p, s, again);
        json_out_close(&o, '}');
    }
    json_out_close(&o, ']');
    return figures_print_line(&o);
}

static int show(plan *p, const char *path) {
    braid_error error = {0};
    if (cli_load_run(path, NULL, &p->run, &error)) return cli_complain(CLI_USAGE, "plan", "%s", error.text);
    if (!p->flags.max_memory) p->flags.max_memory = p->run.max_memory;
    if (p->flags.whole) {
        plan_whole_flags whole = {.max_memory = p->flags.max_memory,
                                  .profile = p->flags.profile,
                                  .plot = p->flags.plot,
                                  .threads = (unsigned)p->flags.threads,
                                  .json = p->flags.json};
        return plan_whole(&p->run, &whole);
    }
    if (p->flags.profile || p->flags.plot)
        return cli_complain(CLI_USAGE, "plan", "--%s needs --whole", p->flags.profile ? "profile" : "plot");
    if (measure(p, &error)) return cli_complain(CLI_FAILED, "plan", "%s", error.text);
    if (!p->flags.json)
        print_plan(p);
    else if (!put_plan(p))
        return cli_complain(CLI_FAILED, "plan", "out of memory");
    return CLI_OK;
}

int cli_plan(int argc, char **argv) {
    static plan p = {.flags = {.threads = 1}};  // too large for the stack
    option table[] = {
        {"max-memory", OPTION_SIZE, &p.flags.max_memory,
         .help = "memory of a peer; shows how many microbatches it holds at once", .fallback = "the run's value"},
        {"threads", OPTION_COUNT, &p.flags.threads, .help = "compute threads; each has its own scratch memory",
         .min = 1, .max = PLAN_MAX_THREADS},
        {"whole", OPTION_SWITCH, &p.flags.whole,
         .help = "one machine trains the whole model and swaps layers: sub-models, time of an iteration, idle share"},
        {"profile", OPTION_TEXT, &p.flags.profile, .unit = "FILE",
         .help = "with --whole: figures that braid profile has written", .fallback = "measured now"},
        {"plot", OPTION_TEXT, &p.flags.plot, .unit = "FILE", .help = "with --whole: draw the timeline as SVG"},
        {"json", OPTION_SWITCH, &p.flags.json, .help = "print one JSON object"},
    };
    options o = {.verb = "plan",
                 .arguments = "RUN.yaml",
                 .summary = "Shows the memory that each stage of a run needs, without starting the run.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = show(&p, o.given[0]);
    options_close(&o);
    return code;
}
