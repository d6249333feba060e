// The directory of a run's checkpoints: which versions lie there, which one `latest` names, and what may be cleared away.
//
// A version is a directory step-NNNNNN with a manifest of that version. Everything else in the directory belongs to
// others: it is neither read nor changed. Only versions of the same run are ever removed, and only older ones than the
// version that is saved.
#ifndef BRAID_TRAIN_CHECKPOINT_DIRECTORY_H
#define BRAID_TRAIN_CHECKPOINT_DIRECTORY_H

#include "base/err.h"
#include "base/id.h"
#include "train/files.h"

#include <stdbool.h>
#include <stdint.h>

enum { STEP_NAME = 32, STEP_TEMPORARY = 96 };

#define CHECKPOINT_LATEST "latest"

// One version that lies there.
typedef struct checkpoint_step {
    char name[STEP_NAME];
    uint64_t version;
    braid_hash run;
    bool complete;  // all files of its manifest are there, with their sizes
    bool readable;  // those of the model are
} checkpoint_step;

typedef struct checkpoint_steps {
    checkpoint_step *step;  // in the order of versions
    uint32_t count;
} checkpoint_steps;

// A directory that is not there has none. Free with checkpoint_steps_free, also after a failure.
braid_err checkpoint_steps_read(const char *directory, checkpoint_steps *out, braid_error *error);
void checkpoint_steps_free(checkpoint_steps *s);
// Whether `name` is that of a version's directory.
bool checkpoint_step_name(const char *name, uint64_t *version);

// The step's directory that `path` means: itself, or what its `latest` says (a link, a file with the name, a directory),
// or else the newest version that can be read. Links are followed here, once.
braid_err checkpoint_locate(const char *path, char step[FILES_MAX_PATH], braid_error *error);
// The name in `latest`, "" when there is none.
void checkpoint_latest_read(const char *directory, char name[STEP_NAME]);
// Makes `latest` a link to that version, or a file with its name where links are not possible. A directory of that name, as
// a copy that follows links makes it, is kept as latest.other.
braid_err checkpoint_latest_point(const char *directory, const char *name, braid_error *error);

// Moves a finished directory to its name. An older copy of the same run and version is replaced in one step; whatever else
// has that name is kept as NAME.other.
braid_err checkpoint_publish(const char *directory, const char *temporary, const char *name, const braid_hash *run,
                             braid_error *error);
// Gives what lies at `path` the first of NAME.other, NAME.other-2, ... that is free.
bool checkpoint_keep_other(const char *directory, const char *name, const char *path);
// Whether a checkpoint lies at `path` itself.
bool checkpoint_is_step(const char *path);
// Keeps CHECKPOINT_KEEP complete versions of this run up to `version`, and removes what this run saved before them.
void checkpoint_clear_older(const char *directory, const braid_hash *run, uint64_t version);
// Removes the oldest version of this run before `version`, unless it is the only complete one. False: none could go.
bool checkpoint_make_room(const char *directory, const braid_hash *run, uint64_t version);
// Moves all versions after `version` into a new directory of their own, DIR/set-aside-N; its path is "" when there are none.
braid_err checkpoint_set_aside(const char *directory, uint64_t version, char place[FILES_MAX_PATH], uint32_t *moved,
                               braid_error *error);

// The name of a directory that is being written: `number` tells the attempts of one process apart.
void checkpoint_temporary_name(uint64_t version, const braid_hash *run, unsigned number, char name[STEP_TEMPORARY]);
// Removes what killed writers left behind, when `alone`: no other writer begins just now. BRAID_STATE: another run is being
// written there.
braid_err checkpoint_clear_leftovers(const char *directory, const braid_hash *run, bool alone, braid_error *error);

// The end of a message about a directory: what the user can do.
const char *checkpoint_mend(int why);

#endif
