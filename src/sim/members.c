// Facts about members that several checkers need: live members by the log, and the state of workers.
#include "sim/inside.h"

bool sim_check_member_live(const sim_cluster *s, member_id member) {
    for (uint32_t i = 0; i < s->checker.members; i++)
        if (s->checker.member[i].member == member) return !s->checker.member[i].expelled;
    return false;
}

bool sim_check_is_shadow(const sim_cluster *s, member_id member) {
    for (uint32_t i = 0; i < s->checker.members; i++)
        if (s->checker.member[i].member == member) return s->checker.member[i].shadow;
    return false;
}

bool sim_check_is_rolled_back(const sim_cluster *s, uint32_t node) { return s->node[node].view.generation < s->checker.generation; }

static uint64_t whole_version(const sim_cluster *s, uint32_t node) {
    const uint64_t *version = s->checker.watch[node].block_version;
    for (uint32_t b = 1; b < s->model->blocks[s->node[node].worker->stage]; b++)
        if (version[b] != version[0]) return UINT64_MAX;
    return version[0];
}

// The version of the worker's state at the start of an incarnation. If no block has been received
// or updated since, the state from before is still there.
uint64_t sim_check_kept_version(const sim_cluster *s, uint32_t node) {
    const sim_watch *w = &s->checker.watch[node];
    uint32_t blocks = s->model->blocks[s->node[node].worker->stage];
    for (uint32_t b = 0; b < blocks; b++)
        if (w->block_version[b] != UINT64_MAX) return whole_version(s, node);
    return w->left;
}
