#!/usr/bin/env python3
"""`train --solo --state-dir`: the weights of a run in memory, less memory than it, kill -9 and --continue, checkpoints that go on
in both directions, and each refusal of a state directory."""

import json
import os
import resource
import signal
import subprocess

from swarmlib import PROGRAM, Braid, expect, seed_of_test, solo, workplace, write_run

LARGE = """\
name: large
seed: 3
model: {arch: llama, dim: 384, layers: 20, heads: 6, context: 64}
data: {text: %s, holdout: 0.1}
train: {iterations: 1, microbatches: 3, sequences: 1, tokens: 32, warmup: 1}
"""


def same_bits(run, state):
    """Layer by layer, as the baseline, and with threads of another number."""
    expected = solo(run, 6)
    for flags in (("--threads", "1"), ("--threads", "2"), ("--swap", "naive"), ("--swap", "stashes"), ("--max-memory", "40M")):
        weights = solo(run, 6, "--state-dir", state, *flags)
        expect(weights == expected, f"{flags}: {weights} is not {expected}")
    expect(os.listdir(state) == [], f"{state} has {os.listdir(state)} after the end")
    return expected


def killed_and_continued(run, state, expected):
    """kill -9, then the same line; the last part of the run is in memory."""
    line = ("train", "--solo", run, "--continue", "--state-dir", state)
    first = Braid(*line, "--iterations", "4")
    first.wait_for("checkpoint", iteration=2)
    first.process.kill()
    first.process.wait()
    weights = Braid(*line, "--iterations", "4").weights()
    resident = Braid("train", "--solo", run, "--continue").weights()
    expect(resident == expected, f"{resident} after a change to memory, not {expected} ({weights} in between)")


def refusal(words, code, *line, **how):
    done = subprocess.run([PROGRAM, "train", "--solo", *line], capture_output=True, text=True, check=False, timeout=60, **how)
    expect(done.returncode == code and words in done.stderr, f"{line}: {done.returncode}, not {code} with '{words}': {done.stderr}")


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))


def refused(run, directory, state, seed):
    other = write_run(directory, seed=seed + 1, iterations=6, name="other.yaml")
    with open(os.path.join(state, "braid.state"), "wb") as file:
        file.write(b"braid state 1\n0123456789abcdef\n".ljust(4096, b"\0"))
    refusal("has the state of another run (0123456789ab)", 1, other, "--state-dir", state)
    os.remove(os.path.join(state, "braid.state"))
    holder = Braid("train", "--solo", run, "--anew", "--state-dir", state, "--iterations", "6", "--state-rate", "256K")
    holder.wait_for("started")
    refusal("is in use by another process", 1, other, "--state-dir", state)
    holder.process.kill()
    holder.process.wait()
    refusal("has the state of another run", 1, other, "--state-dir", state)
    os.remove(os.path.join(state, "braid.state"))
    refusal("no room for the", 1, other, "--state-dir", state, preexec_fn=limit_file_size)
    refusal("raise --max-memory to at least", 1, other, "--state-dir", state, "--max-memory", "1M")
    refusal("cannot make the state directory", 1, other, "--state-dir", os.path.join(directory, "no", "such"))
    refusal("need --state-dir", 2, other, "--swap", "naive")
    refusal("need --state-dir", 2, other, "--state-rate", "1M")
    refusal("'layers', 'stashes' or 'naive', not 'fast'", 2, other, "--state-dir", state, "--swap", "fast")


def peak(line):
    """Returns the events and the largest memory of a process, in bytes."""
    read, write = os.pipe()
    process = os.posix_spawn(PROGRAM, [PROGRAM, *line], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)])
    os.close(write)
    with os.fdopen(read) as output:
        events = [json.loads(text) for text in output]
    _, status, usage = os.wait4(process, 0)
    expect(status == 0, f"{line} ended with {status}")
    return events, usage.ru_maxrss * 1024


def less_memory(directory, state):
    run = os.path.join(directory, "large.yaml")
    with open(run, "w", encoding="ascii") as file:
        file.write(LARGE % os.path.join(directory, "text5.txt"))
    line = ["train", "--solo", run, "--json", "--threads", "2"]
    events, resident = peak(line)
    swapped_events, swapped = peak([*line, "--state-dir", state, "--max-memory", "120M"])
    expect(events[-1]["weights"] == swapped_events[-1]["weights"], f"{swapped_events[-1]} is not {events[-1]}")
    expect(swapped < 120 * 2**20 * 1.03, f"{swapped >> 20} MiB at most where 120 are allowed")
    expect(resident > 4 * swapped, f"{resident >> 20} MiB in memory, {swapped >> 20} MiB with a file")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        state = os.path.join(directory, "state")
        run = write_run(directory, seed=seed, iterations=6, warmup=2)
        expected = same_bits(run, state)
        saved = write_run(directory, seed=seed, iterations=6, warmup=2, name="saved.yaml")
        with open(saved, "a", encoding="ascii") as file:
            file.write(f"checkpoint: {{dir: {os.path.join(directory, 'checkpoint')}, every: 1}}\n")
        killed_and_continued(saved, state, expected)
        refused(run, directory, state, seed)
        less_memory(directory, state)


main()
