// Connects links and core: listening, the enquiry for the run, incoming messages.
#include "node/address.h"
#include "node/clock.h"
#include "node/internal.h"
#include "node/own_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_HASH = 8 };  // bytes of a hash in sentences
static const uint64_t NODE_UNWANTED = UINT64_MAX;  // stands for a blob when the payload is dropped
enum { TURNED_TOLD = 10, TURNED_PERIOD_S = 60 };
static const uint64_t MILLISECOND = 1000000;

static void links_add(node *n, const braid_id *id) {
    if (n->links.count == n->links.room) {
        uint32_t room = n->links.room ? n->links.room * 2 : 16;
        braid_id *larger = realloc(n->links.id, room * sizeof *larger);
        if (!larger) {
            node_fail(n, &(braid_error){BRAID_MEMORY, "no memory for another link"});
            return;
        }
        n->links.id = larger;
        n->links.room = room;
    }
    n->links.id[n->links.count++] = *id;
}

static bool links_remove(node *n, const braid_id *id) {
    for (uint32_t i = 0; i < n->links.count; i++) {
        if (!id_equal(&n->links.id[i], id)) continue;
        n->links.id[i] = n->links.id[--n->links.count];
        return true;
    }
    return false;
}

static bool is_leader(const node *n, const braid_id *id) {
    return id_equal(id, &n->config.leader.leader);
}

static void on_link_up(void *context, const braid_id *id, const net_peer *other) {
    node *n = context;
    (void)other;
    links_add(n, id);
    if (is_leader(n, id)) {
        n->leader.lost_ns = 0;
        n->start.by_log = false;
    }
    node_feed(n, &(event){.kind = EVENT_LINK_UP, .id = *id});
}

// The last messages may still be queued behind a partly sent tensor, so the node stops only
// after every link has sent its queue or given up.
static void all_down(uv_timer_t *timer) {
    node *n = timer->data;
    if (net_leaving(n->net) > 0) uv_timer_start(timer, all_down, NODE_LEAVING_MS, 0);
    else node_stop_now(n);
}

static void on_link_down(void *context, const braid_id *id, bool refused, const char *reason) {
    node *n = context;
    bool was_up = links_remove(n, id);
    if (is_leader(n, id)) snprintf(n->leader.lost, sizeof n->leader.lost, "%s", reason);
    if (n->phase == NODE_RUNNING && is_leader(n, id) && !n->leader.lost_ns && !n->start.by_log) {
        n->leader.lost_ns = clock_now_ns();
        node_note(n, "lost the leader at %s: %s; reconnecting", n->config.leader.address, reason);
    }
    if (n->phase == NODE_ENQUIRING && is_leader(n, id)) node_enquiry_failed(n, reason);
    else if (n->phase == NODE_RUNNING) node_feed(n, &(event){.kind = EVENT_LINK_DOWN, .id = *id, .refused = refused && !was_up});
    else if (n->phase == NODE_STOPPING && n->links.count == 0) uv_timer_start(&n->deadline, all_down, 0, 0);
}

// The payload of an unknown peer is discarded without a buffer: it may claim a gigabyte.
static void *on_payload_alloc(void *context, const braid_id *id, const uint8_t *bytes, size_t count, uint64_t payload_bytes, uint64_t *token) {
    node *n = context;
    (void)bytes, (void)count;
    if (n->phase != NODE_RUNNING || !peer_knows_member(n->core, id)) {
        *token = NODE_UNWANTED;
        return NULL;
    }
    return blobs_add(n->blobs, payload_bytes, token);
}

static void on_payload_drop(void *context, void *payload, uint64_t token) {
    node *n = context;
    (void)payload;
    blobs_release(n->blobs, token);
}

static void on_payload_sent(void *context, uint64_t token) {
    node *n = context;
    if (token) blobs_release(n->blobs, token);
}

// NULL if the core can take the message, else the reason to close the link.
static const char *message_fault(node *n, const uint8_t *bytes, size_t count, const void *payload, uint64_t payload_bytes) {
    if (!message_decode(bytes, count, &n->msg)) return "it sent a malformed message";
    if (message_has_payload(&n->msg) != (payload_bytes > 0)) return "it sent a message with a missing or unexpected tensor";
    if (payload_bytes && !payload) return "no memory for the tensor that it sent";
    return NULL;
}

static uint64_t bytes_waiting(const node *n) {
    net_totals totals;
    net_look(n->net, &totals);
    return totals.bytes.bulk_queued;
}

static uint64_t bytes_waiting_for(const node *n, const braid_id *id) {
    net_stats stats;
    return net_link_stats(n->net, id, &stats) ? stats.bulk_queued : 0;
}

static void on_message(void *context, const braid_id *id, const uint8_t *bytes, size_t count, void *payload, uint64_t payload_bytes, uint64_t token) {
    node *n = context;
    if (!payload && token == NODE_UNWANTED) return;
    const char *wrong = message_fault(n, bytes, count, payload, payload_bytes);
    if (wrong) node_note(n, "closing a link: %s", wrong);
    if (wrong || n->phase != NODE_RUNNING) {
        if (payload) blobs_release(n->blobs, token);
        if (wrong) net_close(n->net, id, wrong);
        return;
    }
    if (fault_at_message(&n->die_at, &n->msg) == FAULT_DIE_NOW) fault_die();
    measure_message(&n->measure, payload_bytes);
    event e = {.kind = EVENT_MESSAGE, .id = *id, .msg = &n->msg, .blob = payload ? token : 0, .blob_bytes = payload_bytes};
    if (n->msg.kind == MESSAGE_CARRY || n->msg.kind == MESSAGE_CARRY_CHUNKS) e.waiting_bytes = bytes_waiting(n);
    if (n->msg.kind == MESSAGE_GET) e.waiting_bytes = bytes_waiting_for(n, id);
    node_feed(n, &e);
}

static braid_err describe(node *n, const net_run *told, braid_error *error) {
    run_config run;
    braid_hash data;
    if (!told->description || told->description_bytes > sizeof n->description.text)
        return braid_fail(error, BRAID_FORMAT, "the leader sent no description of the run");
    braid_error why;
    static const char serving[] = "{\"kind\":\"braid serving";
    if (told->description_bytes >= sizeof serving && memcmp(told->description, serving, sizeof serving - 1) == 0)
        return braid_fail(error, BRAID_ARGUMENT, "that peer serves a model and trains none; join it with its ticket, which begins with serve1., and --model FILE");
    if (run_config_from_description(told->description, told->description_bytes, &run, &data, &why))
        return braid_fail(error, BRAID_FORMAT, "the leader's description of the run cannot be read: %.400s", why.text);
    n->run_hash = run_config_hash(&run, &data);
    if (!hash_equal(&n->run_hash, &told->hash))
        return braid_fail(error, BRAID_FORMAT, "the leader's description of the run does not match its hash");
    memcpy(n->description.text, told->description, told->description_bytes);
    n->description.bytes = told->description_bytes;
    if (told->generation % NODE_START_VERSIONS == 0) return braid_fail(error, BRAID_FORMAT, "the leader did not send the version that the run starts from");
    n->start.generation = told->generation;
    if (n->config.role == NODE_RELAY) n->run = run;
    return BRAID_OK;
}

// Compares before the peer joins, so that the user gets one error instead of a refusal on every
// link.
static braid_err compare_kernels(node *n, const net_run *told, braid_error *error) {
    char here[2 * SHORT_HASH + 1], there[2 * SHORT_HASH + 1];
    braid_err err = node_try_kernels(n, error);
    if (err || hash_equal(&n->kernels, &told->kernels)) return err;
    id_hex(n->kernels.bytes, SHORT_HASH, here);
    id_hex(told->kernels.bytes, SHORT_HASH, there);
    return braid_fail(error, BRAID_STATE, "this machine's kernels are of class %s, and the run needs class %s: use the same version of "
                      "braid and a similar processor, or train with `mode: fast`", here, there);
}

// Finds the addresses of a peer that listens on all of them. False: this machine has no address but
// loopback.
static bool find_own_addresses(node *n, bool only_v4) {
    own_hosts hosts;
    bool leads = n->config.role == NODE_LEADER, local = !leads && address_list_is_local(n->config.leader.address);
    n->own.address[0] = 0;
    if (!local) own_hosts_find(leads ? NULL : n->config.leader.address, only_v4, &hosts);
    for (uint32_t i = 0; !local && i < hosts.count; i++) address_list_add(n->own.address, hosts.host[i], net_port(n->net));
    bool found = n->own.address[0] != 0;
    // A leader at a loopback address means that all peers of the run are on this machine.
    if (!found) address_list_add(n->own.address, "127.0.0.1", net_port(n->net));
    return found || local;
}

// Determines the address again after the leader has answered: at the start its name was not
// resolved, or the network was down.
static void guess_again(node *n) {
    braid_error error;
    if (!n->own.guessed || !find_own_addresses(n, n->own.only_v4)) return;
    if (!net_advertise(n->net, n->own.address, &error)) n->own.guessed = false;
}

static void describe_begin(node *n, const net_run *told) {
    braid_error error = {0};
    guess_again(n);
    braid_err err = describe(n, told, &error);
    if (!err) err = compare_kernels(n, told, &error);
    if (!err) err = node_open_base(n, &error);
    if (!err) err = node_begin(n, &error);
    if (err) node_fail(n, &error);
}

// Without a leader: the peer that the user named answers with another run, or with another start of
// this one.
static void compare_start(node *n, const net_run *told) {
    char log[300] = "";
    if (hash_equal(&told->hash, &n->run_hash) && told->generation == n->start.generation) return;
    if (n->start.by_log) snprintf(log, sizeof log, " of the log %s", n->config.log_path);
    braid_fail(&n->error, BRAID_STATE, "the run%s no longer exists: %s has started a new one; restart this peer to join that", log, n->leader.named.address);
    node_end(n);
}

static void on_description(void *context, const braid_id *id, const net_run *told) {
    node *n = context;
    static const braid_id no_peer;
    const braid_id self = identity_id(n->config.identity);
    (void)id;
    if (n->phase == NODE_RUNNING && (n->start.by_log || n->leader.lost_ns)) compare_start(n, told);
    if (n->phase != NODE_ENQUIRING) return;
    if (n->config.role == NODE_DATA && !hash_equal(&told->hash, &n->run_hash)) {
        braid_fail(&n->error, BRAID_CONFIG, "the leader at %s trains another run: its description or its text is not that of `%s` here; "
                   "give both the same RUN.yaml and the same text", n->config.leader.address, n->run.name);
        node_end(n);
        return;
    }
    // The answer may name this peer itself as the leader, from before its restart.
    if (!id_equal(&told->leader, &no_peer) && !id_equal(&told->leader, &self) && told->leader_address && *told->leader_address) {
        n->config.leader.leader = told->leader;
        snprintf(n->config.leader.address, sizeof n->config.leader.address, "%s", told->leader_address);
    }
    describe_begin(n, told);
}

// Reports are limited, so that repeated attempts by an unknown peer do not flood the output.
static void on_turned_away(void *context, const char *endpoint, const char *reason) {
    node *n = context;
    uint64_t now = clock_now_ns();
    if (n->refused.max_links && net_links(n->net) >= n->refused.max_links) {
        if (!n->refused.full_told) node_note(n, "no more peers are admitted: the limit on open files (ulimit -n) allows %u links; existing links stay", n->refused.max_links);
        n->refused.full_told = true;
        return;
    }
    if (now - n->refused.since_ns > TURNED_PERIOD_S * 1000 * MILLISECOND) {
        if (n->refused.count > TURNED_TOLD) node_note(n, "refused %u more connections", n->refused.count - TURNED_TOLD);
        n->refused.count = 0;
        n->refused.since_ns = now;
    }
    if (n->refused.count++ < TURNED_TOLD) node_note(n, "refused %s: %s%s", endpoint, reason, n->refused.count == TURNED_TOLD ? "; further refusals are only counted for a while" : "");
}

static void retry_passed(uv_timer_t *timer) { node_enquire(timer->data); }

static void begin_by_log(node *n) {
    braid_error error = {0};
    n->start.by_log = true;
    braid_err err = node_try_kernels(n, &error);
    if (!err) err = node_begin(n, &error);
    if (err) node_fail(n, &error);
}

void node_enquiry_failed(node *n, const char *reason) {
    const char *address = n->config.leader.address;
    uint64_t spent = clock_now_ns() - n->leader.enquire_ns;
    if (spent > NODE_ENQUIRE_MS * MILLISECOND && node_remembers_run(n)) {
        node_note(n, "continuing from the log %.200s, because the leader at %s cannot be reached: %.120s", n->config.log_path, address, reason);
        begin_by_log(n);
        return;
    }
    if (spent > NODE_ENQUIRE_MS * MILLISECOND && n->config.continues && node_remembers_end(n)) {
        node_end(n);
        return;
    }
    uint64_t patience = n->config.patience_ns;
    if (patience && spent >= patience) {
        braid_fail(&n->error, BRAID_NETWORK, "cannot reach the leader at %s: %.200s; is it running, and is the address reachable from here?", address, reason);
        node_end(n);
        return;
    }
    n->leader.retry_ms = n->leader.retry_ms ? n->leader.retry_ms * 2 : NODE_RETRY_FIRST_MS;
    if (n->leader.retry_ms > NODE_RETRY_MOST_MS) n->leader.retry_ms = NODE_RETRY_MOST_MS;
    uint64_t left_ms = patience ? (patience - spent) / MILLISECOND + 1 : UINT64_MAX;  // the last attempt is at the end of the timeout
    if (n->leader.retry_ms > left_ms) n->leader.retry_ms = left_ms;
    node_note(n, "cannot reach the leader at %s: %s; retrying in %.1f s", address, reason, (double)n->leader.retry_ms / 1000);
    uv_timer_start(&n->retry, retry_passed, n->leader.retry_ms, 0);
}

void node_enquire(node *n) {
    if (n->phase == NODE_STARTING) n->leader.enquire_ns = clock_now_ns();
    n->phase = NODE_ENQUIRING;
    braid_error error;
    if (net_enquire(n->net, &n->config.leader.leader, n->config.leader.address, &error)) node_enquiry_failed(n, error.text);
}

// While this peer has no leader, the peer that its user named may have started the run anew. It
// refuses links of the older start, so only an enquiry shows that.
void node_enquire_again(node *n) {
    braid_error ignored;
    bool lost = n->leader.lost_ns && n->config.role != NODE_LEADER;
    uint64_t pause_ms = n->start.by_log ? NODE_ENQUIRE_AGAIN_MS : NODE_ENQUIRE_LOST_MS, since_ns = n->leader.enquire_ns;
    if (!n->start.by_log && n->leader.lost_ns > since_ns) since_ns = n->leader.lost_ns;
    if ((!n->start.by_log && !lost) || net_linked(n->net, &n->leader.named.leader) || clock_now_ns() < since_ns + pause_ms * MILLISECOND) return;
    n->leader.enquire_ns = clock_now_ns();
    net_enquire(n->net, &n->leader.named.leader, n->leader.named.address, &ignored);
}

void node_net_callbacks(node *n, net_callbacks *out) {
    *out = (net_callbacks){
        .context = n, .link_up = on_link_up, .link_down = on_link_down, .message = on_message,
        .payload_alloc = on_payload_alloc, .payload_drop = on_payload_drop, .payload_sent = on_payload_sent,
        .description = on_description, .turned_away = on_turned_away,
    };
}

// Sets this peer's address for others: the user's, the one it listens on, or that of the route to
// the leader.
braid_err node_listen(node *n, braid_error *error) {
    char host[WIRE_MAX_ADDRESS];
    uint16_t port;
    const char *listen = n->config.listen ? n->config.listen : "*:0";
    if (!address_split_listen(listen, host, &port, error)) return BRAID_ARGUMENT;
    braid_err err = net_listen(n->net, host, port, error);
    if (err) return err;
    if (n->config.public_address) {
        if (!address_split_public(n->config.public_address, host, &port, error)) return BRAID_ARGUMENT;
        if (address_join(host, port ? port : net_port(n->net), n->own.address)) return net_advertise(n->net, n->own.address, error);
        return braid_fail(error, BRAID_ARGUMENT, "the address %s is too long", host);
    }
    n->own.only_v4 = address_is_wildcard_v4(host);
    if (address_is_wildcard(host)) n->own.guessed = !find_own_addresses(n, n->own.only_v4);
    else if (!address_join(host, net_port(n->net), n->own.address)) return braid_fail(error, BRAID_ARGUMENT, "the address %s is too long", host);
    return net_advertise(n->net, n->own.address, error);
}

void node_sent(const node *n, uint64_t *tensor_bytes, uint64_t *message_bytes) {
    net_totals totals = {0};
    if (n->net) net_look(n->net, &totals);
    *tensor_bytes = totals.bytes.bulk_out;
    *message_bytes = totals.bytes.control_out;
}
