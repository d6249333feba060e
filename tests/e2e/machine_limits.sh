#!/bin/bash
# Processors, memory and descriptors: the limits of the process, not those of the machine.
. "$(dirname "$0")/lib.sh"

write_text words.txt
write_run run.yaml
first_cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
field() { sed -n "s/.*\"event\":\"machine\".*\"$1\":\([0-9]*\).*/\1/p" output | head -1; }
is() { [ "$2" = "$3" ] || { echo "FAILED: $1 is '$2', not '$3'" && failures=$((failures + 1)); }; }

# --- processors
expect 0 "\"event\":\"machine\"" taskset -c "$first_cpu" "$BRAID" train --solo run.yaml --json
is "one processor of the affinity mask" "$(field processors)" 1
expect 0 "without --max-memory all of the memory is assumed to be free" "$BRAID" train --solo run.yaml
expect 0 "the run gets at most 1 GiB" "$BRAID" train --solo run.yaml --max-memory 1G
is "said by braid up once" "$("$BRAID" up run.yaml --relays 2 --json | grep -c '"event":"machine"')" 1
write_run endless.yaml 's/iterations: 4/iterations: 100000/' 's/every: 2/every: 0/'
taskset -c "$first_cpu" "$BRAID" train --solo endless.yaml >progress 2>&1 &
for _ in $(seq "$(scaled 100)"); do
    grep -q "iteration 2/" progress && break
    sleep 0.05
done
threads=$(ls "/proc/$!/task" | wc -l)
kill -KILL $! && wait $! || true
if [ "$threads" -gt 2 ]; then echo "FAILED: $threads threads on one processor" && failures=$((failures + 1)); fi

# --- descriptors: the soft limit is raised, few are shared between links and files, too few are refused
few() { (ulimit -Sn 64 && "$BRAID" train --solo run.yaml --json); }
expect 0 "weights" few
hard=$(ulimit -Hn)
if [ "$hard" = unlimited ] || [ "$hard" -gt 65536 ]; then hard=65536; fi
is "open files" "$(field files)" "$hard"
refused() { (ulimit -n "$1" && exec "$BRAID" node --lead --run run.yaml --listen 127.0.0.1:0); }
expect 1 "open files, and 15 are allowed; raise the limit (ulimit -n)" refused 15
expect 1 "open files, and 7 are allowed; raise the limit (ulimit -n)" refused 7
unsaved() { (ulimit -n 10 && exec "$BRAID" train --solo run.yaml --save few); }
expect 1 "open files, and 10 are allowed; raise the limit (ulimit -n)" unsaved
if grep -q "iteration 1/" output; then echo "FAILED: it computed what it could not save" && failures=$((failures + 1)); fi

# --- fewer links than peers: one note, the linked peers continue, and the checkpoint is written
write_run crowded.yaml 's/iterations: 4/iterations: 100000/' 's/\[0, 1, 1\]/[0, 2]/' 's/every: 2/every: 0/'
echo 'checkpoint: {dir: saved}' >>crowded.yaml
told() { for _ in $(seq "$(scaled 400)"); do
    grep -q "$1" leader && return
    sleep 0.05
done; }
(limit=$(scaled 60) && ulimit -n 32 && exec timeout "$limit" "$BRAID" node --lead --run crowded.yaml --listen 127.0.0.1:0 --wait-relays 1 --json >leader 2>complaints) &
leader=$!
told '"ready"'
ticket=$(grep -o 'braid1[^"]*' leader | head -1)
relays=()
for _ in $(seq 11); do
    timeout "$(scaled 60)" "$BRAID" node --join "$ticket" >>relays 2>&1 &
    relays+=($!)
done
told 'the limit on open files'
told '"iteration":3'
kill -INT "$leader"
status=0
wait "$leader" || status=$?
for relay in "${relays[@]}"; do
    kill "$relay" 2>/dev/null || true
done
wait
is "the leader's code" "$status" 0
is "notes of full links" "$(grep -c 'the limit on open files' leader)" 1
[ -d saved/latest ] || { echo "FAILED: nothing saved" && failures=$((failures + 1)); }

# --- a system with few threads: fewer threads compute, or a sentence; never a crash
cat >few.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *context) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static int count;
    if (!real) real = dlsym(RTLD_NEXT, "pthread_create");
    return count++ < atoi(getenv("MOST")) ? real(thread, how, run, context) : EAGAIN;
}
END
with_threads() { MOST=$1 LD_PRELOAD=$PWD/few.so timeout "$(scaled 60)" "$BRAID" "${@:2}"; }
if ! nm -D "$BRAID" 2>/dev/null | grep -q '__[at]san' && "${CC:-cc}" -shared -fPIC -o few.so few.c -ldl 2>/dev/null; then
    expect 0 "the system gives 1 of 8 compute threads: this process computes with 1" with_threads 0 train --solo run.yaml --threads 8
    expect 0 "the system gives 4 of 8 compute threads" with_threads 3 train --solo run.yaml --threads 8
    expect 1 "cannot start the thread that writes the log" with_threads 0 up run.yaml --relays 2
    expect 1 "cannot start a compute thread" with_threads 1 up run.yaml --relays 2
    expect 0 "the system gives 1 of 4 compute threads" with_threads 2 up run.yaml --relays 2 --threads 4
fi

# --- the limits of a control group on threads and memory, where this user may make one
place=""
group() {  # controller file value
    place=/sys/fs/cgroup/$1/braid-test-$$
    [ -w "/sys/fs/cgroup/$1/cgroup.procs" ] && mkdir "$place" 2>/dev/null && { printf '%s\n' "$3" >"$place/$2" || { rmdir "$place" && false; }; }
}
inside() { (echo "$BASHPID" >"$1/cgroup.procs" && shift && exec "$@"); }
if group pids pids.max 4; then
    expect 0 "compute threads: this process computes with" inside "$place" "$BRAID" train --solo run.yaml --threads 16
    expect 0 "weights " inside "$place" "$BRAID" train --solo run.yaml --threads 16
    rmdir "$place"
fi
if group memory memory.limit_in_bytes 67108864; then
    expect 0 "64.0 MiB of memory (control group)" inside "$place" "$BRAID" train --solo run.yaml
    rmdir "$place"
fi
if group cpu cpu.cfs_quota_us 50000; then
    expect 0 "(control group)" inside "$place" "$BRAID" train --solo run.yaml --json
    rmdir "$place"
fi

# --- a plan that does not fit
too_large() { (limit=$(scaled 20) && ulimit -v 600000 && exec timeout "$limit" "$BRAID" "$@"); }
write_run large.yaml 's/dim: 32/dim: 2048/' 's/layers: 2/layers: 8/' 's/\[0, 1, 1\]/[0, 4, 4]/' 's/heads: 2/heads: 16/'
if (ulimit -v 600000 && "$BRAID" --version >/dev/null 2>&1); then
    expect 1 "this run may need " too_large train --solo large.yaml --threads 1
    (ulimit -v 600000 && exec "$BRAID" up large.yaml --relays 2 >progress 2>&1) &
    swarm=$!
    for _ in $(seq "$(scaled 100)"); do
        grep -q "processes of this run need about " progress && break
        sleep 0.05
    done
    kill -KILL $swarm && wait $swarm || true
    grep -q "processes of this run need about " progress || { echo "FAILED: nothing of the memory of all" && failures=$((failures + 1)); }
fi

finish
