# The traces of routing experiments do not depend on compiler and optimisation. This test builds the few sources that they need
# with each installed compiler at two levels, and compares the output with that of the build's own program.
import glob
import os
import shutil
import subprocess
import sys

SOURCE = os.environ["SOURCE"]
OWN = os.path.join(os.path.dirname(os.environ["BRAID"]), "tests", "bench_training_traces")
PARTS = [
    "src/base/err.c", "src/routing/*.c", "src/routing/*/*.c", "src/plan/min_cost.c", "src/plan/problem.c", "src/sim/queue.c", "src/sim/places.c", "bench/baselines/*.c",
    "bench/routing/blocks.c", "bench/routing/routing_[!d]*.c", "bench/routing/scale*.c", "bench/routing/views*.c",
    "bench/training/pipeline.c", "bench/training/t6.c", "tests/bench/training_traces.c",
]
FLAGS = ["-std=c17", "-D_POSIX_C_SOURCE=200809L", "-D_DEFAULT_SOURCE", "-ffp-contract=off", f"-I{SOURCE}/src", f"-I{SOURCE}"]


def sources():
    found = []
    for part in PARTS:
        matches = sorted(glob.glob(os.path.join(SOURCE, part)))
        assert matches, f"there is no {part}"
        found += matches
    return found


def traces(program):
    done = subprocess.run([program, "print"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def start_build(compiler, level):
    program = os.path.abspath(f"traces-{compiler}{level}")
    command = [compiler, level, *FLAGS, *sources(), "-lcmocka", "-lm", "-o", program]
    return program, subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


expected = traces(OWN)
assert expected.count("\n") > 20, "the build's own program prints too little"
builds = [start_build(c, level) for c, level in (("gcc", "-O0"), ("clang", "-O1")) if shutil.which(c)]
for program, build in builds:
    _, complaint = build.communicate()
    if build.returncode != 0:
        sys.exit(f"{program} could not be built:\n{complaint}")
    got = traces(program)
    for want, line in zip(expected.splitlines(), got.splitlines()):
        assert want == line, f"{os.path.basename(program)}: {line!r} instead of {want!r}"
    assert got == expected, f"{program} prints something else"
print(f"{len(expected.splitlines())} traces, the same in {len(builds)} other builds")
