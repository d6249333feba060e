#include "cli/node_whole.h"

#include "cli/own_child.h"
#include "cli/report.h"
#include "cli/up_restart.h"
#include "node/address.h"
#include "node/clock.h"
#include "wire/limits.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHOLE_POLL_MS = 50 };
static const uint64_t MILLISECOND = 1000000;

typedef struct whole_member {
    pid_t pid;  // 0: not running
    own_child_pipes pipes;
    char line[REPORT_MAX_LINE];
    size_t bytes;
    bool joined, told_end;
    bool ready;  // its state is whole at `version`
    uint64_t version;
    uint64_t began_ms;
    uint64_t again_ms;  // when it is restarted, 0: not
    restart_record deaths;
    char listen[WIRE_MAX_ADDRESS], public_address[WIRE_MAX_ADDRESS];
} whole_member;

struct node_whole {
    node_whole_config config;
    char self[2 * BRAID_ID_BYTES + 1], ticket[512];
    uint32_t own;         // of these, the parent's; 0: none
    uint64_t max_memory;  // of each member
    char reason[256];
    uint32_t first, stages;  // members of the stages first .. stages - 1
    bool stopping, told;
    bool own_ready;
    uint64_t own_version;
    whole_member member[WIRE_MAX_STAGES];
};

node_whole *node_whole_new(const node_whole_config *config) {
    node_whole *w = calloc(1, sizeof *w);
    if (w) w->config = *config;
    return w;
}

static uint64_t now_ms(void) { return clock_now_ns() / MILLISECOND; }

static void note(const node_whole *w, const char *text) { w->config.note(w->config.context, text); }

static bool is_own(const node_whole *w, uint32_t stage) { return stage == w->own && w->own > 0; }

// Each member listens beside the one before it.
static void choose_addresses(node_whole *w) {
    const char *listen = w->config.listen, *known = w->config.public_address;
    for (uint32_t s = w->first; s < w->stages; s++) {
        whole_member *m = &w->member[s];
        if (!address_beside(listen, known, m->listen, m->public_address)) return;
        listen = m->listen;
        known = m->public_address[0] ? m->public_address : NULL;
    }
}

static void member_start(node_whole *w, uint32_t stage) {
    whole_member *m = &w->member[stage];
    own_child_arguments a;
    braid_error error;
    char what[48];
    own_child_begin(&a, "node");
    own_child_add(&a, "--json");
    own_child_add(&a, "--supervised");
    own_child_text(&a, "--bound", w->self);
    own_child_text(&a, "--join", w->ticket);
    own_child_number(&a, "--stage", stage);
    own_child_text(&a, "--listen", m->listen[0] ? m->listen : NULL);
    own_child_text(&a, "--public-address", m->public_address[0] ? m->public_address : NULL);
    own_child_text(&a, "--from", w->config.from);
    own_child_text(&a, "--state-dir", w->config.state_directory);
    own_child_number(&a, "--threads", w->config.threads);
    own_child_number(&a, "--capacity", w->config.capacity);
    own_child_number(&a, "--max-memory", w->max_memory);
    own_child_duration(&a, "--patience", w->config.patience_ns);
    m->began_ms = now_ms();
    m->again_ms = 0;
    m->bytes = 0;
    m->joined = m->told_end = m->ready = false;
    snprintf(what, sizeof what, "stage %u", stage);
    if (own_child_start(&a, what, &m->pid, &m->pipes, &error) == BRAID_OK) return;
    m->pid = 0;
    note(w, error.text);
}

void node_whole_start(node_whole *w, const braid_id *self, const char *ticket, const node_whole_stages *stages) {
    id_hex(self->bytes, BRAID_ID_BYTES, w->self);
    snprintf(w->ticket, sizeof w->ticket, "%s", ticket);
    snprintf(w->reason, sizeof w->reason, "%s", stages->reason);
    w->max_memory = stages->max_memory;
    w->first = stages->first;
    w->stages = stages->stages;
    w->own = stages->own;
    choose_addresses(w);
    for (uint32_t s = w->first; s < w->stages; s++)
        if (!is_own(w, s)) member_start(w, s);
}

bool node_whole_started(const node_whole *w) { return w->stages > 0; }

void node_whole_advanced(node_whole *w, uint64_t version) {
    w->own_ready = true;
    w->own_version = version;
}

// ---- events -------------------------------------------------------------------------------------

static void tell_placed(node_whole *w) {
    char text[400];
    uint32_t lowest = w->own > 0 ? w->first : w->first - 1;
    if (w->told || w->stages == 0) return;
    for (uint32_t s = w->first; s < w->stages; s++)
        if (!w->member[s].joined && !is_own(w, s)) return;
    w->told = true;
    snprintf(text, sizeof text, "placed as a whole-model peer, in the stages %u to %u: %s", lowest, w->stages - 1,
             w->reason);
    note(w, text);
}

static void member_event(node_whole *w, uint32_t stage, const report_event *news) {
    whole_member *m = &w->member[stage];
    char text[600];
    if (news->kind == REPORT_END) m->told_end = !news->failed;
    if (news->kind == REPORT_JOINED && news->stage == stage && strcmp(news->role, "relay") == 0) m->joined = true;
    if (news->kind != REPORT_NOTE && news->kind != REPORT_REFUSED) return;
    snprintf(text, sizeof text, "stage %u: %.500s", stage, news->text);
    note(w, text);
}

static void member_line(node_whole *w, uint32_t stage) {
    whole_member *m = &w->member[stage];
    unsigned long long version;
    report_event news;
    if (sscanf(m->line, "{\"event\":\"advanced\",\"version\":%llu}", &version) == 1) {
        m->ready = m->joined = true;
        m->version = version;
    } else if (report_from_json(m->line, m->bytes, &news, NULL) == BRAID_OK) {
        member_event(w, stage, &news);
    }
}

static void member_gone(node_whole *w, uint32_t stage) {
    whole_member *m = &w->member[stage];
    char text[160];
    close(m->pipes.commands);
    close(m->pipes.events);
    waitpid(m->pid, NULL, 0);
    m->pid = 0;
    m->joined = m->ready = false;
    if (m->told_end || w->stopping) return;
    restart_note_death(&m->deaths, now_ms(), now_ms() - m->began_ms, m->version > 0);
    m->again_ms = now_ms() + restart_note_loss(&m->deaths);
    bool hopeless = restart_is_hopeless(&m->deaths);
    if (hopeless) m->again_ms = 0;
    snprintf(text, sizeof text, "the process of stage %u died; %s", stage,
             hopeless ? "it died too often, so this machine has this stage no more" : "it is started again");
    note(w, text);
}

static void member_read(node_whole *w, uint32_t stage) {
    whole_member *m = &w->member[stage];
    char input[4096];
    ssize_t count;
    while (m->pid != 0 && (count = read(m->pipes.events, input, sizeof input)) >= 0) {
        if (count == 0) {
            member_gone(w, stage);
            return;
        }
        for (ssize_t i = 0; i < count; i++) {
            if (input[i] != '\n') {
                if (m->bytes + 1 < sizeof m->line) m->line[m->bytes++] = input[i];
                continue;
            }
            m->line[m->bytes] = 0;
            member_line(w, stage);
            m->bytes = 0;
        }
    }
}

void node_whole_tick(node_whole *w) {
    for (uint32_t s = w->first; s < w->stages; s++) {
        member_read(w, s);
        if (w->member[s].again_ms && now_ms() >= w->member[s].again_ms && !w->stopping) member_start(w, s);
    }
    tell_placed(w);
}

bool node_whole_ready(const node_whole *w, uint64_t *version) {
    *version = w->own_version;
    for (uint32_t s = w->first; s < w->stages; s++) {
        if (is_own(w, s)) continue;
        if (!w->member[s].ready) return false;
        if (w->member[s].version < *version) *version = w->member[s].version;
    }
    return w->own_ready && w->stages > 0;
}

// ---- the end ------------------------------------------------------------------------------------

void node_whole_stop(node_whole *w) {
    static const char command[] = "drain\n";
    if (w->stopping) return;
    w->stopping = true;
    for (uint32_t s = w->first; s < w->stages; s++) {
        ssize_t ignored = w->member[s].pid ? write(w->member[s].pipes.commands, command, sizeof command - 1) : 0;
        (void)ignored;  // a member that is gone needs no command
    }
}

static bool some_run(const node_whole *w) {
    for (uint32_t s = w->first; s < w->stages; s++)
        if (w->member[s].pid) return true;
    return false;
}

static void wait_for_members(node_whole *w, uint64_t limit_ns) {
    uint64_t until = clock_now_ns() + limit_ns;
    struct pollfd open[WIRE_MAX_STAGES];
    while (some_run(w) && clock_now_ns() < until) {
        nfds_t count = 0;
        for (uint32_t s = w->first; s < w->stages; s++)
            if (w->member[s].pid) open[count++] = (struct pollfd){.fd = w->member[s].pipes.events, .events = POLLIN};
        poll(open, count, WHOLE_POLL_MS);
        for (uint32_t s = w->first; s < w->stages; s++) member_read(w, s);
    }
}

void node_whole_free(node_whole *w, uint64_t limit_ns) {
    if (!w) return;
    w->stopping = true;
    wait_for_members(w, limit_ns);
    for (uint32_t s = w->first; s < w->stages; s++) {
        if (w->member[s].pid == 0) continue;
        kill(w->member[s].pid, SIGKILL);
        member_gone(w, s);
    }
    free(w);
}
