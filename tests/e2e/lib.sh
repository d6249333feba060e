# shellcheck shell=bash
# Shared by the end-to-end scripts, which source it. Each starts in an empty folder.
set -euo pipefail
: "${BRAID:?the path of the program}"
# The folder has files of an earlier run, or the script was started by hand in another folder.
if [ -n "$(ls -A)" ] && [ ! -e .emptied_by_tests ]; then
    printf '%s: %s is not empty, and not the folder of a test: run it by ctest, or from an empty folder\n' "$0" "$PWD" >&2
    exit 1
fi
find . -mindepth 1 -delete
touch .emptied_by_tests
failures=0

# scaled SECONDS: a time limit for a machine with as much other work as this one (loadlib.py has the same rule).
scaled() {
    awk -v seconds="$1" -v processors="$(nproc)" '{ split($4, running, "/"); load = $1 > running[1] - 2 ? $1 : running[1] - 2;
        factor = load > processors ? load / processors : 1; printf "%.0f", seconds * factor + 0.5 }' /proc/loadavg
}

# expect CODE TEXT COMMAND...: checks the exit status, and that the output has TEXT.
expect() {
    local code=$1 text=$2 status=0
    shift 2
    "$@" >output 2>&1 </dev/null || status=$?
    if [ "$status" -ne "$code" ] || ! grep -qF -- "$text" output; then
        printf 'FAILED: %s\n  expected status %s and: %s\n  got status %s and:\n' "$*" "$code" "$text" "$status"
        sed 's/^/    /' output
        failures=$((failures + 1))
    fi
}

# A training text: the same words on every machine.
write_text() {  # path [lines]
    awk -v lines="${2:-2000}" 'BEGIN { split("the river bends round every stone that lies in its way", word, " ");
        for (i = 1; i <= lines; i++) { line = ""; for (j = 0; j < 9; j++) line = line word[1 + (i * 7 + j * j * 3) % 11] " "; print line i } }' >"$1"
}

# A small run, with `sed` scripts for a test's own settings.
write_run() {  # path [sed script]...
    local path=$1 script arguments=(-e '')
    shift
    for script in "$@"; do arguments+=(-e "$script"); done
    sed "${arguments[@]}" >"$path" <<'END'
name: small
seed: 7
stages: [0, 1, 1]
model:
  arch: llama
  dim: 32
  layers: 2
  heads: 2
  context: 32
data:
  text: words.txt
  holdout: 0.1
train:
  iterations: 4
  microbatches: 4
  sequences: 2
eval:
  every: 2
  microbatches: 1
swarm:
  slots: 4
END
}

finish() {
    [ "$failures" -eq 0 ] || {
        echo "$failures of them failed"
        exit 1
    }
    echo "all as expected"
}
