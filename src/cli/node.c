// braid node: one peer, by default a relay.
#include "cli/allowance.h"
#include "cli/cli.h"
#include "cli/node_events.h"
#include "cli/node_place.h"
#include "cli/node_serve.h"
#include "cli/node_shadow.h"
#include "cli/node_whole.h"
#include "cli/options.h"
#include "cli/own_child.h"
#include "cli/report.h"
#include "cli/report_sinks.h"
#include "node/clock.h"
#include "node/node.h"
#include "node/plan.h"
#include "node/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct node_flags {
    const char *join, *listen, *public_address, *identity, *run, *from, *resume, *log, *die_at, *trace, *beside, *bound, *state_directory, *model, *layers;
    option_list adapters;
    report_sink_paths sinks;
    bool lead, anew, continues, set_aside, data, json, supervised, measure, shadow, carry;
    struct {
        bool on, given;
    } whole;
    uint64_t stop_within_ns, share, stage, threads, capacity, max_memory, patience_ns, wait_ns, wait_data, wait_relays, voters, shadows, upload_share, carried, dead_ns;
} node_flags;

// Context of the callbacks.
typedef struct node_session {
    node_events events;
    report *report;
    const node *node;  // NULL: not made yet
    bool supervised;
    const node_flags *flags;
    const run_config *run;  // of a data peer
    node_whole *whole;      // the members of the other stages on this machine; NULL: none
    braid_id self;
    char ticket[512];       // of this peer
    bool chooses;           // between one stage and all of them, later
    uint64_t iterations, allowed_bytes;
    struct {
        uint32_t stages;
        uint64_t stage_bytes;  // least memory of a relay of any stage
    } joined;
    bool whole_told;        // their common version, `whole_version`, was reported
    uint64_t whole_version;
} node_session;

static const char examples[] =
    "braid node --join braid1.0f3c...@203.0.113.5:4711        lend this machine to a run\n"
    "braid node --lead --run RUN.yaml --listen 0.0.0.0:4711   start a run that others join\n"
    "braid node --data --run RUN.yaml --join TICKET           join as a data peer, with the text\n"
    "braid node --join serve1.0f3c...                         lend this machine to a swarm that serves a model\n"
    "braid node --lead --run RUN.yaml --log run.log           start a run; the same command line continues it\n";

static const char shadow_directory[] = "/var/tmp";

// In a run with an adapter a standby replica reads the model, too.
static const char *model_for_shadow(const node_session *s) {
    if (!s->run) return s->flags->from;
    return s->run->recipe.adapter.rank > 0 ? s->run->from : NULL;
}

// The standby replica joins once this peer works for a stage.
static void begin_shadow(node_session *s, const braid_id *self, const char *run_ticket) {
    const node_flags *f = s->flags;
    const node_shadow shadow = {.ticket = run_ticket, .listen = f->listen, .public_address = f->public_address, .patience_ns = f->patience_ns, .from = model_for_shadow(s), .state_directory = f->state_directory ? f->state_directory : shadow_directory, .threads = f->threads, .capacity = f->capacity, .max_memory = f->max_memory};
    braid_error error;
    if (node_shadow_start(&shadow, self, &error)) node_events_note(&s->events, error.text);
}

// A ticket for this peer itself. Without a leader, or after it is gone for good, any peer can
// inform a joining one.
static void own_ticket(const braid_id *self, const char *address, char text[TICKET_MAX_TEXT]) {
    ticket own = {.leader = *self};
    snprintf(own.address, sizeof own.address, "%s", address);
    ticket_format(&own, text);
}

static void on_listening(void *context, const braid_id *self, const char *address, const char *ticket_text) {
    node_session *s = context;
    report_event news = {.kind = REPORT_READY, .process = (uint64_t)getpid()};
    peer_text(self, news.peer);
    snprintf(news.address, sizeof news.address, "%s", address);
    snprintf(news.ticket, sizeof news.ticket, "%s", ticket_text ? ticket_text : "");
    if (!ticket_text) own_ticket(self, address, news.ticket);
    s->self = *self;
    snprintf(s->ticket, sizeof s->ticket, "%s", news.ticket);
    report_tell(s->report, &news);
    if (s->flags->shadow) begin_shadow(s, self, ticket_text ? ticket_text : s->flags->join);
    if ((!ticket_text && !s->flags->data) || report_chosen(s->report) == REPORT_JSON) return;
    char text[640];
    const char *quote = strchr(news.ticket, '[') ? "'" : "";
    snprintf(text, sizeof text, "%s:  braid node --join %s%s%s", ticket_text ? "others join with" : "if the leader does not return, others join with", quote, news.ticket, quote);
    node_events_note(&s->events, text);
}

// A data peer has stage 0, a relay stage 1. The members join by this peer, which knows the leader.
static void begin_whole(node_session *s, const run_config *run) {
    const node_flags *f = s->flags;
    uint32_t first = s->run ? 1 : 2;
    uint64_t own, each;
    // the same division gave this peer its own share, so it succeeds
    if (plan_whole_memory(run, (uint32_t)f->capacity, f->max_memory, s->run != NULL, f->state_directory != NULL, &own, &each, NULL) || first >= run->stages) return;
    node_whole_start(s->whole, &s->self, s->ticket, &(node_whole_stages){.first = first, .stages = run->stages, .max_memory = each, .reason = "asked for with --whole"});
}

// A relay that was asked for neither --whole nor --stage decides once it has measured.
static void tick_place(node_session *s) {
    const node_flags *f = s->flags;
    peer_view view;
    char text[PLACE_TEXT], told[PLACE_TEXT + 64];
    if (!s->chooses || s->iterations < PLACE_ITERATIONS || !s->node || node_stopped_by(s->node) || !node_look(s->node, &view) || !view.ready) return;
    const place_facts facts = {.stages = s->joined.stages, .stage = view.stage, .compute_ns = view.placement.compute_ns, .transfer_ns = view.placement.transfer_ns,
                               .needed_bytes = (s->joined.stages - 1) * s->joined.stage_bytes, .allowed_bytes = s->allowed_bytes, .max_memory = f->max_memory};
    place_verdict verdict = place_choose(&facts, text);
    if (verdict == PLACE_WAIT) return;
    s->chooses = false;
    if (verdict == PLACE_WHOLE) {
        node_whole_start(s->whole, &s->self, s->ticket, &(node_whole_stages){.first = 1, .stages = s->joined.stages, .own = view.stage, .reason = text});
        return;
    }
    snprintf(told, sizeof told, "placed in stage %u alone: %s", view.stage, text);
    node_events_note(&s->events, told);
}

static void on_run_known(void *context, const run_config *run, uint64_t parameters) {
    node_session *s = context;
    node_events_run(&s->events, run, parameters);
    s->joined.stages = run->stages;
    s->joined.stage_bytes = run->stages > 1 ? plan_least_bytes(run, (uint32_t)s->flags->capacity, s->flags->capacity > 0, false, false) : 0;
    if (s->flags->whole.on && !node_whole_started(s->whole)) begin_whole(s, run);
}

static void on_told(void *context, const tell *t) {
    node_session *s = context;
    s->iterations += t->kind == TELL_ITERATION;
    if (s->node && t->kind == TELL_ITERATION) node_sent(s->node, &s->events.tensor_bytes, &s->events.message_bytes);
    node_events_tell(&s->events, t, clock_now_ns());
}

static void print_advanced(uint64_t version) {
    printf("{\"event\":\"advanced\",\"version\":%llu}\n", (unsigned long long)version);
    fflush(stdout);
}

// For the supervisor only (cli/up_children.c): it kills a peer only if another one of the stage has
// reached the same version.
static void on_advanced(void *context, uint64_t version) {
    node_session *s = context;
    if (s->whole && node_whole_started(s->whole)) node_whole_advanced(s->whole, version);
    else if (s->supervised) print_advanced(version);
}

// For the supervisor only (cli/up_chaos.c): it never kills a majority of the voters.
static void on_voters(void *context, uint64_t index, const braid_id *voting, uint32_t count) {
    const node_session *s = context;
    char id[REPORT_HASH_TEXT];
    if (!s->supervised) return;
    printf("{\"event\":\"voters\",\"index\":%llu,\"machines\":\"", (unsigned long long)index);
    for (uint32_t i = 0; i < count; i++) {
        peer_text(&voting[i], id);
        printf("%s%s", i > 0 ? " " : "", id);
    }
    printf("\"}\n");
    fflush(stdout);
}

// A whole-model peer has advanced when all its stages have.
static void tick_whole(node_session *s) {
    uint64_t version;
    if (s->node && node_stopped_by(s->node)) node_whole_stop(s->whole);
    node_whole_tick(s->whole);
    if (!s->supervised || !node_whole_ready(s->whole, &version) || (s->whole_told && version == s->whole_version)) return;
    s->whole_told = true;
    s->whole_version = version;
    print_advanced(version);
}

// For the supervisor only (cli/up_measure.c).
static void on_figures(void *context, const node_figures *f) {
    (void)context;
    printf("{\"event\":\"measured\",\"stage\":%u,\"capacity\":%u,\"iterations\":%llu,\"messages\":%llu,\"payload_bytes\":%llu,"
           "\"loop_ns\":%llu,\"process_ns\":%llu,\"wall_ns\":%llu,\"jobs\":[",
           f->stage, f->capacity, (unsigned long long)f->iterations, (unsigned long long)f->messages, (unsigned long long)f->payload_bytes,
           (unsigned long long)f->loop_ns, (unsigned long long)f->process_ns, (unsigned long long)f->wall_ns);
    for (int i = 0; i < JOB_KINDS; i++)
        printf("%s[%llu,%llu]", i ? "," : "", (unsigned long long)f->kind[i].jobs, (unsigned long long)f->kind[i].cpu_ns);
    printf("]}\n");
    fflush(stdout);
}

static void on_saved(void *context, const char *path, const char *why) {
    node_session *s = context;
    snprintf(s->events.checkpoint, sizeof s->events.checkpoint, "%s", path);
    snprintf(s->events.unsaved, sizeof s->events.unsaved, "%s", why ? why : "");
}

static void on_note(void *context, const char *text) {
    node_session *s = context;
    node_events_note(&s->events, text);
}

static void on_complete(void *context, uint64_t version, const braid_hash *weights, const char *path) {
    node_session *s = context;
    s->events.ended = true;
    s->events.version = version;
    s->events.weights = *weights;
    snprintf(s->events.checkpoint, sizeof s->events.checkpoint, "%s", path);
}

static void on_tick(void *context) {
    node_session *s = context;
    node_events_tick(&s->events);
    tick_place(s);
    if (s->whole) tick_whole(s);
    report_tick(s->report);
}

static braid_err roles_check(const node_flags *f, node_role *role, braid_error *error) {
    *role = f->lead ? NODE_LEADER : f->data ? NODE_DATA : NODE_RELAY;
    if (f->lead && f->data) return braid_fail(error, BRAID_ARGUMENT, "a leader is always a data peer; leave out --data");
    if (f->anew && !f->lead) return braid_fail(error, BRAID_ARGUMENT, "--anew is for --lead: a joining peer takes part in the leader's run; leave it out");
    if (f->continues && f->anew && f->set_aside) return braid_fail(error, BRAID_ARGUMENT, "--continue resumes from the newest checkpoint and --anew sets it aside; give one of them");
    if (f->continues && *role == NODE_RELAY) return braid_fail(error, BRAID_ARGUMENT, "--continue is for --lead and --data: a relay gets its state from the run; leave it out");
    if (f->lead && f->join) return braid_fail(error, BRAID_ARGUMENT, "--lead starts a run and --join joins one; give one of them");
    if (!f->lead && !f->join) return braid_fail(error, BRAID_ARGUMENT, "--join TICKET is missing (or --lead, to start a run); the leader prints the whole command");
    if (*role != NODE_RELAY && !f->run) return braid_fail(error, BRAID_ARGUMENT, "--run RUN.yaml is missing: it names the model and the text");
    if (f->model || f->layers || f->adapters.count > 0) return braid_fail(error, BRAID_ARGUMENT, "--model, --layers and --adapter are for the ticket of a swarm that serves a model (braid serve --peers)");
    if (*role == NODE_RELAY && f->run) return braid_fail(error, BRAID_ARGUMENT, "a relay receives the run's description from the leader; leave out --run, or add --data");
    if (f->voters % 2 == 0) return braid_fail(error, BRAID_ARGUMENT, "--voters %u: an even number tolerates no more failures than one voter fewer; give 1, 3 or 5", (unsigned)f->voters);
    if (*role == NODE_RELAY && f->share) return braid_fail(error, BRAID_ARGUMENT, "--share is for data peers; add --data, or leave it out");
    if (f->whole.on && f->shadow) return braid_fail(error, BRAID_ARGUMENT, "--whole already keeps the state of every stage; leave out --shadow");
    if (f->whole.on && f->stage) return braid_fail(error, BRAID_ARGUMENT, "--whole takes part in every stage and --stage in one; give one of them");
    if (f->stage && *role != NODE_RELAY) return braid_fail(error, BRAID_ARGUMENT, "--stage is for relays: a data peer has stage 0; leave it out");
    if (f->beside && (*role != NODE_RELAY || f->shadow)) return braid_fail(error, BRAID_ARGUMENT, "--beside is for a standby replica; leave out --lead, --data and --shadow");
    return BRAID_OK;
}

// Of a child process of the peer with this id, which ends with it.
static braid_err parent_read(const char *flag, const char *id, node_config *config, braid_error *error) {
    if (strlen(id) != 2 * BRAID_ID_BYTES || !id_unhex(id, BRAID_ID_BYTES, config->beside.bytes))
        return braid_fail(error, BRAID_ARGUMENT, "%s %s: the id of a peer has 64 hexadecimal digits", flag, id);
    own_child_bind();
    return BRAID_OK;
}

static braid_err beside_read(const node_flags *f, node_config *config, braid_error *error) {
    config->shadow = true;
    config->state_directory = f->state_directory ? f->state_directory : shadow_directory;
    return parent_read("--beside", f->beside, config, error);
}

static braid_err serving_check(const node_flags *f, braid_error *error) {
    if (!f->data && !f->run && !f->shadow && !f->whole.given && !f->stage) return BRAID_OK;
    return braid_fail(error, BRAID_ARGUMENT, "--data, --run, --shadow, --whole and --stage are for a training run, and the ticket is of a swarm that serves a model; leave them out");
}

static braid_err config_fill(const node_flags *f, run_config *run, node_config *config, braid_error *error) {
    *config = (node_config){
        .listen = f->listen, .public_address = f->public_address, .patience_ns = f->patience_ns, .wait_ns = f->wait_ns, .resume = f->resume, .from = f->from,
        .log_path = f->log, .continues = f->continues, .anew = f->anew, .sets_aside = f->anew && f->set_aside, .voters = (uint32_t)f->voters, .upload_percent = (uint32_t)f->upload_share, .carried_percent = (uint32_t)f->carried, .carries_nothing = !f->carry, .threads = (unsigned)f->threads, .capacity = (uint32_t)f->capacity, .max_memory = f->max_memory,
        .signals = true, .stop_within_ns = f->stop_within_ns, .supervised = f->supervised, .measure = f->measure, .trace = f->trace, .start_data_peers = (uint32_t)f->wait_data, .start_relays = (uint32_t)f->wait_relays, .share = (uint32_t)f->share, .shadows = (uint32_t)f->shadows,
    };
    braid_err err = f->join && !f->lead ? ticket_parse(f->join, &config->leader, error) : BRAID_OK;
    if (!err && config->leader.serves) return serving_check(f, error);
    if (!err) err = roles_check(f, &config->role, error);
    if (!err && f->die_at) err = fault_parse(f->die_at, &config->die_at, error);
    if (!err && f->beside) err = beside_read(f, config, error);
    if (!err && f->bound) err = parent_read("--bound", f->bound, config, error);
    if (f->whole.on || f->bound) config->state_directory = f->state_directory;
    config->whole = f->whole.on;
    config->stage = f->whole.on && config->role == NODE_RELAY ? 1 : (uint32_t)f->stage;
    if (err || !f->run) return err;
    config->run = run;
    err = cli_load_run(f->run, f->from, run, error);
    if (!err && f->continues && !run->checkpoint[0]) err = braid_fail(error, BRAID_ARGUMENT, "--continue needs a directory of checkpoints: set checkpoint.dir in %s", f->run);
    if (!err && run->private_data > 0 && !f->identity && !f->supervised)
        err = braid_fail(error, BRAID_ARGUMENT, "--identity PATH is missing: with private data (data.private) a peer must keep its identity across restarts");
    if (!err && !config->start_relays) config->start_relays = run->stages - 1;
    return err;
}

// Stored data belongs to an identity: a restarted peer finds it again only under the same id.
static braid_err identity_take(const char *path, identity **out, int *lock, braid_error *error) {
    braid_err err = identity_load_or_create(path, out, error);
    return err ? err : identity_lock(path, lock, error);
}

static braid_err identity_open(const node_flags *f, identity **out, int *lock, braid_error *error) {
    char path[4096];
    if (f->identity) return identity_take(f->identity, out, lock, error);
    if (!f->log || f->supervised) return identity_new(out, error);
    if (snprintf(path, sizeof path, "%s.key", f->log) >= (int)sizeof path) return braid_fail(error, BRAID_ARGUMENT, "--log %.100s...: the path is too long", f->log);
    return identity_take(path, out, lock, error);
}

// With a ticket of a swarm that serves a model.
static int serving_run(const node_flags *f, const ticket *join) {
    if (f->sinks.page) return cli_complain(CLI_USAGE, "node", "--page shows a training run; a swarm that serves a model has its page at braid serve");
    if (!f->model && !cli_can_fill("node", "state-dir", f->state_directory)) return CLI_FAILED;
    const node_serve_flags flags = {.join = join, .model = f->model, .state_directory = f->state_directory, .layers = f->layers, .listen = f->listen, .public_address = f->public_address, .identity = f->identity,
                                    .threads = f->threads, .max_memory = f->max_memory, .patience_ns = f->patience_ns, .dead_ns = f->dead_ns, .adapters = &f->adapters, .json = f->json, .supervised = f->supervised};
    return node_serve(&flags);
}

// After the parent's end, for the members to leave in order.
static const uint64_t WHOLE_LEAVE_NS = UINT64_C(30000000000);

static braid_err whole_make(node_session *s, braid_error *error) {
    const node_flags *f = s->flags;
    const node_whole_config whole = {.listen = f->listen, .public_address = f->public_address, .from = model_for_shadow(s), .state_directory = f->state_directory, .threads = f->threads,
                                     .capacity = f->capacity, .patience_ns = f->patience_ns, .context = s, .note = on_note};
    s->whole = node_whole_new(&whole);
    return s->whole ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for the members of the other stages");
}

static int node_session_run(const node_flags *f, node_config *config) {
    braid_error error = {0};
    identity *own = NULL;
    int lock = -1;
    node *n = NULL;
    node_session s = {.supervised = f->supervised, .flags = f, .run = config->run};
    report_sinks *sinks = NULL;
    // the events of a supervised process are written by its supervisor, those of a standby replica by its parent peer
    if (!f->supervised && !f->beside && report_sinks_open(&f->sinks, &sinks, &error)) return cli_complain(CLI_FAILED, "node", "%s", error.text);
    s.report = report_new(f->json ? REPORT_JSON : REPORT_AUTO, stdout);
    report_also(s.report, sinks);
    node_events_init(&s.events, s.report);
    config->callbacks = (node_callbacks){.context = &s, .listening = on_listening, .run_known = on_run_known, .told = on_told,
                                         .advanced = on_advanced, .voters = on_voters, .saved = on_saved, .figures = on_figures, .note = on_note, .complete = on_complete, .tick = on_tick};
    machine here;
    machine_look(&here);
    braid_err err = identity_open(f, &own, &lock, &error);
    config->identity = own;
    s.chooses = config->role == NODE_RELAY && !f->whole.given && !f->stage && !f->shadow && !f->beside && !f->supervised;
    s.allowed_bytes = here.memory_bytes;
    if (!err && (f->whole.on || s.chooses)) err = whole_make(&s, &error);
    config->files = here.files;
    if (!f->supervised && !f->beside) {  // `braid up`, or the parent peer, reports this for all its processes
        allowance_tell(s.report, &here, config->max_memory ? config->max_memory : config->run ? config->run->max_memory : 0);
        config->usable_bytes = here.memory_bytes;
    }
    if (!err) err = allowance_files(&here, ALLOWANCE_NODE_FILES, &error);
    if (!err) err = node_new(config, &n, &error);
    bool began = !err;
    s.node = n;
    if (!err) err = node_run(n, &error);
    s.events.stopped_by = began ? node_stopped_by(n) : NULL;
    if (began || f->json) node_events_end(&s.events, err ? error.text : NULL, clock_now_ns());
    report_free(s.report);
    if (s.whole && s.events.stopped_by) node_whole_stop(s.whole);
    node_whole_free(s.whole, err ? 0 : WHOLE_LEAVE_NS);
    node_free(n);
    identity_free(own);
    if (lock >= 0) close(lock);
    if (!err) return CLI_OK;
    return cli_complain(err == BRAID_ARGUMENT || err == BRAID_CONFIG ? CLI_USAGE : CLI_FAILED, "node", "%s", error.text);
}

int cli_node(int argc, char **argv) {
    node_flags f = {.stop_within_ns = STOP_WITHIN_NS, .threads = 1, .carry = true, .set_aside = true, .wait_data = 1, .voters = PEER_VOTERS, .shadows = 1, .upload_share = PEER_UPLOAD_PERCENT, .patience_ns = 60000000000u};
    option table[] = {
        {"join", OPTION_TEXT, &f.join, .unit = "TICKET", .help = "join the run of the leader that printed this ticket"},
        {"listen", OPTION_TEXT, &f.listen, .unit = "HOST:PORT", .help = "address to listen on", .fallback = "every address, any free port"},
        {"public-address", OPTION_TEXT, &f.public_address, .unit = "HOST:PORT", .help = "address at which others reach this peer; port 0: the port that it listens on", .fallback = "detected"},
        {"identity", OPTION_TEXT, &f.identity, .unit = "PATH", .help = "key file, created if it is missing (braid keygen)", .fallback = "PATH.key with --log PATH, else a new key each time"},
        {"threads", OPTION_COUNT, &f.threads, .help = "compute threads", .min = 1, .max = 1024},
        {"capacity", OPTION_COUNT, &f.capacity, .help = "microbatches held at once", .max = WIRE_MAX_MICROBATCHES, .fallback = "the run's value, limited by memory"},
        {"max-memory", OPTION_SIZE, &f.max_memory, .help = "memory limit for weights, optimizer and microbatches; with --whole of all its processes", .fallback = "no limit"},
        {"lead", OPTION_SWITCH, &f.lead, .help = "start the run of --run and lead it, or continue the run in --log"},
        {"anew", OPTION_SWITCH, &f.anew, .help = "with --lead: start the run again even if --log or checkpoint.dir has it; the old log is renamed to PATH.old, newer checkpoints are moved to a folder set-aside-N"},
        {"continue", OPTION_SWITCH, &f.continues, .help = "with --lead and --data: continue the run in --log, or resume from the newest checkpoint in checkpoint.dir; without either, start it, from --resume if given"},
        {"set-aside", OPTION_SWITCH, &f.set_aside, .hidden = true, .help = "--no-set-aside: --anew applies only to the log (braid up starts its processes so)"},
        {"data", OPTION_SWITCH, &f.data, .help = "join as a data peer, with the text of --run"},
        {"run", OPTION_TEXT, &f.run, .unit = "RUN.yaml", .help = "the run's description, for --lead and --data"},
        {"from", OPTION_TEXT, &f.from, .unit = "MODEL", .help = "start from this model, a Hugging Face directory, a checkpoint or a GGUF file; all data peers need the same. A relay needs it only in a run with 'adapter:'", .fallback = "model.from of the run, else the seed"},
        {"model", OPTION_TEXT, &f.model, .unit = "FILE", .help = "with the ticket of a serving swarm: this machine's file of the model", .fallback = "layers come from other peers"},
        {"adapter", OPTION_LIST, &f.adapters, .unit = "NAME=DIR", .help = "with --model: a LoRA adapter of peft that requests of the swarm may name; the same as at braid serve; may be repeated", .fallback = ""},
        {"layers", OPTION_TEXT, &f.layers, .unit = "FIRST:END", .help = "in a swarm that serves: the layers to hold, END not included", .fallback = "as many as fit, where the swarm needs them most"},
        {"dead-after", OPTION_DURATION, &f.dead_ns, .hidden = true, .help = "with --model: silence after which a peer is replaced"},
        {"whole", OPTION_SWITCH, &f.whole.on, .help = "take part in every stage, so that microbatches can stay on this machine: with --lead or --data in all of them, else in all but stage 0. One process per stage; --no-whole: in one stage only", .fallback = "a relay takes part in all stages where its links take longer than computing, and memory suffices"},
        {"stage", OPTION_COUNT, &f.stage, .help = "join this stage, unless another one has no peer", .max = WIRE_MAX_STAGES - 1, .fallback = "the one where this peer helps most"},
        {"share", OPTION_COUNT, &f.share, .help = "with private data: the number of this data peer's text, from 1", .max = WIRE_MAX_STAGE_MEMBERS, .fallback = "a free one"},
        {"wait-data-peers", OPTION_COUNT, &f.wait_data, .help = "with --lead: data peers needed before the run starts, the leader included", .min = 1, .max = WIRE_MAX_STAGE_MEMBERS},
        {"wait-relays", OPTION_COUNT, &f.wait_relays, .help = "with --lead: relays needed before the run starts", .max = WIRE_MAX_MEMBERS, .fallback = "one per stage"},
        {"wait-for-peers", OPTION_DURATION, &f.wait_ns, .help = "with --lead and --data: time limit for leading a run that lacks peers; 0: no limit"},
        {"resume", OPTION_TEXT, &f.resume, .unit = "DIR", .help = "with --lead: resume from this checkpoint; with --join: take state from it instead of fetching it"},
        {"upload-share", OPTION_COUNT, &f.upload_share, .unit = "PERCENT", .help = "largest share of the upload rate that peers may use to fetch state during training", .min = 1, .max = 100},
        {"carry", OPTION_SWITCH, &f.carry, .help = "forward tensors between other peers whose connections are slow; --no-carry: never"},
        {"log", OPTION_TEXT, &f.log, .unit = "PATH", .help = "keep the run's log in this file, and continue from it after a restart", .fallback = "no file"},
        {"voters", OPTION_COUNT, &f.voters, .help = "maximum number of voters, which keep the log; a majority of them must stay alive; 1, 3 or 5", .min = 1, .max = PEER_VOTERS},
        {"shadow", OPTION_SWITCH, &f.shadow, .help = "also keep another stage's state in a second process (a standby replica), so that the run survives the loss of that stage"},
        {"state-dir", OPTION_TEXT, &f.state_directory, .unit = "DIR", .help = "with --shadow and --whole: directory for the state, 12 bytes per parameter. Without --model in a swarm that serves: keeps the layers that other peers send, for the next start", .fallback = "/var/tmp with --shadow, else memory"},
        {"shadows", OPTION_COUNT, &f.shadows, .help = "with --lead and --data: standby replicas per stage, chosen from the peers with --shadow", .max = 4},
        {"patience", OPTION_DURATION, &f.patience_ns, .help = "how long to retry an unreachable leader; 0: no limit"},
        {"stop-within", OPTION_DURATION, &f.stop_within_ns, .help = "time limit for an orderly stop after SIGINT, SIGTERM or SIGHUP", .min = 1},
        {"json", OPTION_SWITCH, &f.json, .help = "print one JSON object per line"},
        REPORT_SINK_OPTIONS(f.sinks),
        {"die-at", OPTION_TEXT, &f.die_at, .unit = "POINT[:COUNT]", .hidden = true,
         .help = "kill this process at a point of the protocol, for tests: forward, complete-sent, backward, committed, weight, reduction, final, transfer, carry"},
        {"carried", OPTION_COUNT, &f.carried, .unit = "PERCENT", .hidden = true, .help = "percentage of tensors to send through a forwarding peer, for tests", .max = 100},
        {"trace", OPTION_TEXT, &f.trace, .unit = "PATH", .hidden = true, .help = "write the inputs and outputs of the protocol to this file"},
        {"measure", OPTION_SWITCH, &f.measure, .hidden = true, .help = "report the measured costs after each iteration, for braid up --measure"},
        {"beside", OPTION_TEXT, &f.beside, .unit = "PEER", .hidden = true, .help = "run as the standby replica of the peer with this id on the same machine"},
        {"bound", OPTION_TEXT, &f.bound, .unit = "PEER", .hidden = true, .help = "run as a member of the whole-model peer with this id, and end with it"},
        {"supervised", OPTION_SWITCH, &f.supervised, .hidden = true, .help = "read commands from standard input, and end when it closes"},
    };
    options o = {.verb = "node", .summary = "Runs one peer, which joins a run or starts one.", .examples = examples,
                 .table = table, .count = sizeof table / sizeof table[0]};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code)) return code;
    for (size_t i = 0; i < o.count; i++)
        if (table[i].value == &f.whole.on) f.whole.given = table[i].source != OPTION_FROM_DEFAULT;
    static run_config run;  // 20 KB, one per process
    node_config config;
    braid_error error = {0};
    braid_err err = config_fill(&f, &run, &config, &error);
    const stop_config stop = {.verb = "node", .within_ns = f.stop_within_ns, .supervised = f.supervised};
    if (err) code = cli_complain(CLI_USAGE, "node", "%s", error.text);
    else if (stop_watch(&stop, &error)) code = cli_complain(CLI_FAILED, "node", "%s", error.text);
    else code = config.leader.serves ? serving_run(&f, &config.leader) : node_session_run(&f, &config);
    options_close(&o);
    return code;
}
