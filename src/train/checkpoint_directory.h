// The directory of a run's checkpoints: its versions, the one that `latest` names, and removal.
//
// A version is a directory step-NNNNNN with a manifest of that version. All other entries belong to
// other programs and are neither read nor changed. Only older versions of the same run than the one
// being saved are ever removed.
#ifndef BRAID_TRAIN_CHECKPOINT_DIRECTORY_H
#define BRAID_TRAIN_CHECKPOINT_DIRECTORY_H

#include "base/err.h"
#include "base/id.h"
#include "train/files.h"

#include <stdbool.h>
#include <stdint.h>

enum { STEP_NAME = 32, STEP_TEMPORARY = 96 };

#define CHECKPOINT_LATEST "latest"

// A version in the directory.
typedef struct checkpoint_step {
    char name[STEP_NAME];
    uint64_t version;
    braid_hash run;
    bool complete;  // all files of its manifest exist with the right sizes
    bool readable;  // the files of the model do
} checkpoint_step;

typedef struct checkpoint_steps {
    checkpoint_step *step;  // ordered by version
    uint32_t count;
} checkpoint_steps;

// A missing directory has no versions. Free with checkpoint_steps_free, also after a failure.
braid_err checkpoint_steps_read(const char *directory, checkpoint_steps *out, braid_error *error);
void checkpoint_steps_free(checkpoint_steps *s);
// True if `name` is the directory name of a version.
bool checkpoint_step_name(const char *name, uint64_t *version);

// Resolves `path` to a step's directory: the path itself, or the target of its `latest` (a link, a
// file with the name, a directory), or else the newest readable version. Links are followed here,
// once.
braid_err checkpoint_locate(const char *path, char step[FILES_MAX_PATH], braid_error *error);
// The name in `latest`; "" when there is none.
void checkpoint_latest_read(const char *directory, char name[STEP_NAME]);
// Makes `latest` a link to that version, or a file with its name where links are not possible. A
// directory of that name, such as a copy that followed links, is kept as latest.other.
braid_err checkpoint_latest_point(const char *directory, const char *name, braid_error *error);

// Renames a finished directory to its name. An older copy of the same run and version is replaced
// in one step; any other entry of that name is kept as NAME.other.
braid_err checkpoint_publish(const char *directory, const char *temporary, const char *name, const braid_hash *run,
                             braid_error *error);
// Renames the entry at `path` to the first free name of NAME.other, NAME.other-2, ...
bool checkpoint_keep_other(const char *directory, const char *name, const char *path);
// True if `path` itself is the directory of a checkpoint.
bool checkpoint_is_step(const char *path);
// Keeps CHECKPOINT_KEEP complete versions of this run up to `version`, and removes older ones of
// this run.
void checkpoint_clear_older(const char *directory, const braid_hash *run, uint64_t version);
// Removes the oldest version of this run before `version`, unless it is the only complete one.
// False: none was removed.
bool checkpoint_make_room(const char *directory, const braid_hash *run, uint64_t version);
// Moves all versions after `version` into a new directory DIR/set-aside-N and returns its path; ""
// when there are none.
braid_err checkpoint_set_aside(const char *directory, uint64_t version, char place[FILES_MAX_PATH], uint32_t *moved,
                               braid_error *error);

// The temporary name of a directory; `number` distinguishes the attempts of one process.
void checkpoint_temporary_name(uint64_t version, const braid_hash *run, unsigned number, char name[STEP_TEMPORARY]);
// Removes leftovers of killed writers. `alone`: no other writer can be starting. BRAID_STATE:
// another run is being written there.
braid_err checkpoint_clear_leftovers(const char *directory, const braid_hash *run, bool alone, braid_error *error);

// The end of a message about a directory: the user's options.
const char *checkpoint_mend(int why);

#endif
