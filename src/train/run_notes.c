#include "train/run_notes.h"

#include "train/optimizer.h"
#include "format/text_check.h"

#include <math.h>
#include <stdio.h>

// share of the previous rate; a cosine over 50 iterations changes by less near its ends
static const double JUMP = 0.02;

// the default, a twentieth of the iterations, is never that long
static bool warmup_note(const run_config *run, char text[RUN_NOTE]) {
    const train_recipe *r = &run->recipe;
    if (r->warmup < r->iterations || r->warmup < 2) return false;
    snprintf(text, RUN_NOTE, "train.warmup is %llu iterations and the run has %llu: the learning rate still rises when the run ends, at %.3g of %.3g; lower train.warmup",
             (unsigned long long)r->warmup, (unsigned long long)r->iterations, (double)train_learning_rate(r, r->iterations - 1), (double)r->learning_rate);
    return true;
}

static bool text_note(const run_config *run, uint64_t text_size, char text[RUN_NOTE]) {
    uint64_t read = run_iteration_tokens(run), have = (uint64_t)((double)text_size * (1 - run->holdout));
    if (read <= have) return false;
    snprintf(text, RUN_NOTE, "one iteration reads %llu %s and the text has %llu to train on: all of it is seen %.1f times in each iteration; add text, or lower train.microbatches or "
             "train.sequences", (unsigned long long)read, run->tokenizer[0] ? "tokens" : "bytes", (unsigned long long)have, (double)read / (double)have);
    return true;
}

static bool context_note(const run_config *run, char text[RUN_NOTE]) {
    if (run->tokens >= run->model.context || run->from[0]) return false;
    snprintf(text, RUN_NOTE, "model.context is %u and train.tokens %u: positions from %u on are not trained", run->model.context, run->tokens, run->tokens + 1);
    return true;
}

static bool mark_note(const char *path, char text[RUN_NOTE]) {
    if (!text_check_marked(path)) return false;
    snprintf(text, RUN_NOTE, "%.200s begins with the byte order mark of UTF-8: its 3 bytes are kept and trained on like all others; to remove them: tail -c +4 FILE > text.txt", path);
    return true;
}

void run_notes(const run_config *run, uint64_t text_size, run_note_fn say, void *context) {
    char text[RUN_NOTE];
    if (warmup_note(run, text)) say(context, text);
    if (text_note(run, text_size, text)) say(context, text);
    if (context_note(run, text)) say(context, text);
    for (uint32_t i = 0; i < run->text_count && !run->tokenizer[0]; i++)
        if (mark_note(run->text[i], text)) say(context, text);
}

static int schedule_text(const train_recipe *recipe, const run_schedule *had, char *text, size_t room) {
    if (had->iterations == recipe->iterations) return snprintf(text, room, "the schedule differs");
    return snprintf(text, room, "the schedule has %llu iterations now and had %llu", (unsigned long long)recipe->iterations, (unsigned long long)had->iterations);
}

bool run_rate_jumps(const train_recipe *recipe, uint64_t version, const run_schedule *had, char text[RUN_NOTE]) {
    char schedule[96], mend[128] = "";
    if (had->iterations == 0 || version == 0 || version >= recipe->iterations) return false;
    double last = (double)had->learning_rate, next = (double)train_learning_rate(recipe, version);
    // the same schedule continues
    if (train_learning_rate(recipe, version - 1) == had->learning_rate || fabs(next - last) <= JUMP * last) return false;
    schedule_text(recipe, had, schedule, sizeof schedule);
    if (last > 0) snprintf(mend, sizeof mend, "set train.learning_rate and train.min_learning_rate to %.3g and train.warmup to 0, or ", last);
    snprintf(text, RUN_NOTE, "the learning rate jumps from %.3g in iteration %llu to %.3g in iteration %llu: %s. To avoid the jump, %splan the longer run from its start and stop it early (--iterations)",
             last, (unsigned long long)version, next, (unsigned long long)version + 1, schedule, mend);
    return true;
}
