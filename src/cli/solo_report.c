#include "cli/solo_report.h"

#include "base/machine.h"

#include <string.h>

static void copy_text(char *to, size_t room, const char *text) {
    if (!text) return;
    size_t length = strnlen(text, room - 1);
    memcpy(to, text, length);
    to[length] = 0;
}

static const report_kind kind_of[] = {
    [SOLO_STARTED] = REPORT_STARTED,       [SOLO_ITERATION] = REPORT_ITERATION, [SOLO_EVAL] = REPORT_EVAL,
    [SOLO_CHECKPOINT] = REPORT_CHECKPOINT, [SOLO_NOTE] = REPORT_NOTE,
};

void solo_report_show(report *r, const char *name, const solo_event *event) {
    report_event e = {.kind = kind_of[event->kind],
                      .iteration = event->iteration,
                      .of = event->of,
                      .loss = event->loss,
                      .norm = event->norm};
    e.learning_rate = event->learning_rate;
    e.tokens_per_second = event->tokens_per_second;
    e.tokens = event->tokens;
    e.parameters = event->parameters;
    e.microbatches = event->microbatches;
    e.stages = 1;
    e.work.memory_bytes = machine_resident_bytes();
    e.skip = event->skip;
    e.failed = event->failed;
    copy_text(e.text, sizeof e.text, event->text);
    copy_text(e.path, sizeof e.path, event->path);
    copy_text(e.name, sizeof e.name, name);
    report_tell(r, &e);
}
