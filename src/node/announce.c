// The announcements to joining peers: the run, and the leader.
#include "node/clock.h"
#include "node/internal.h"

#include <stdio.h>

braid_err node_announce(node *n, braid_error *error) {
    net_run run = {
        // A joining peer needs the run's first version before it steps its core: the generation
        // contains it. The generation also rejects peers of an earlier start of the same run.
        .hash = n->run_hash,
        .generation = n->start.generation,
        .leader = n->config.leader.leader,
        .kernels = n->kernels,
        .leader_address = n->config.leader.address,
        .description = n->description.text,
        .description_bytes = n->description.bytes,
    };
    return net_set_run(n->net, &run, error);
}

// Sets the leader that a joining peer is referred to.
void node_leader_is(node *n, const braid_id *id, const char *address) {
    const braid_id self = identity_id(n->config.identity);
    n->config.leader.leader = *id;
    snprintf(n->config.leader.address, sizeof n->config.leader.address, "%s", address ? address : "");
    n->start.by_log = false;
    n->leader.lost_ns = id_equal(id, &self) || net_linked(n->net, id) ? 0 : clock_now_ns();
    braid_error error;
    if (node_announce(n, &error)) node_note(n, "cannot announce the leader to joining peers: %s", error.text);
}
