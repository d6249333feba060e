#!/usr/bin/env python3
"""Codecs between stages: for each, a swarm with deaths and joins ends with the weights of one process, and these differ from those
of the other codecs. A tensor in a link takes the codec's bytes. Bad values are refused by name."""

import subprocess

from swarmlib import PROGRAM, Braid, expect, seed_of_test, solo, workplace, write_run

ITERATIONS = 20
CODECS = ("bf16", "int8", "int4", "{forward: int8, backward: bf16}")


def run_with(directory, seed, number, links):
    run = write_run(directory, seed=seed, iterations=ITERATIONS, warmup=2, stages="[0, 2, 1]", name=f"links{number}.yaml")
    with open(run, encoding="ascii") as file:
        text = file.read()
    with open(run, "w", encoding="ascii") as file:
        file.write(text.replace("swarm: {", f"swarm: {{links: {links}, "))
    return run


def refused(directory, seed, links, says):
    done = subprocess.run([PROGRAM, "train", "--solo", run_with(directory, seed, 9, links)], capture_output=True, text=True, check=False)
    expect(done.returncode == 2 and says in done.stderr, f"links {links}: {done.returncode}, {done.stderr}")


def main():
    seed, found = seed_of_test(), {}
    with workplace() as directory:
        found["fp32"] = solo(run_with(directory, seed, 0, "fp32"), ITERATIONS)
        expect(found["fp32"] == solo(write_run(directory, seed=seed, iterations=ITERATIONS, warmup=2, stages="[0, 2, 1]"), ITERATIONS), "fp32 is not the default")
        for i, links in enumerate(CODECS):
            run = run_with(directory, seed, i + 1, links)
            one, two = solo(run, ITERATIONS, "--threads", "1"), solo(run, ITERATIONS, "--threads", "2")
            expect(one == two, f"{links}: two threads: {two} is not {one}")
            swarm = Braid("up", run, "--relays", "5", "--chaos", f"kills=3,joins=2,seed={seed}")
            weights = swarm.weights()
            expect(weights == one, f"{links}: a swarm with deaths: {weights} is not {one}")
            expect(one not in found.values(), f"{links}: the weights are those of another codec")
            found[links] = one
            print(f"{links}: {len(swarm.of('killed'))} killed, {swarm.events[-1]['repairs']} repairs")
        refused(directory, seed, "int7", "fp32, bf16, int8 or int4")
        refused(directory, seed, "{forward: int8, back: int8}", "back")
        refused(directory, seed, "[int8, int8]", "links")


main()
