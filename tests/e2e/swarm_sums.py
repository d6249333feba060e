#!/usr/bin/env python3
"""Sums of one byte a value: a swarm with deaths and joins ends, and its loss is close to that of exact sums. Other values of the key,
and the key in a reproducible run, are refused by name."""

import subprocess

from swarmlib import PROGRAM, Braid, expect, seed_of_test, workplace, write_run

ITERATIONS = 30


def run_with(directory, seed, name, sums, mode="fast"):
    run = write_run(directory, seed=seed, iterations=ITERATIONS, warmup=2, stages="[0, 3]", name=f"{name}.yaml", mode=mode)
    with open(run, encoding="ascii") as file:
        text = file.read()
    with open(run, "w", encoding="ascii") as file:
        file.write(text.replace("swarm: {", f"swarm: {{sums: {sums}, "))
    return run


def last_loss(run, *flags):
    swarm = Braid("up", run, "--relays", "3", *flags)
    swarm.weights()
    return swarm.of("eval")[-1]["loss"]


def refused(run, says):
    done = subprocess.run([PROGRAM, "train", "--solo", run], capture_output=True, text=True, check=False)
    expect(done.returncode == 2 and says in done.stderr, f"{run}: {done.returncode}, {done.stderr}")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        exact = last_loss(run_with(directory, seed, "exact", "exact"))
        rounded = run_with(directory, seed, "int8", "int8")
        for flags in ((), ("--chaos", f"kills=2,joins=2,seed={seed}")):
            loss = last_loss(rounded, *flags)
            print(f"held-out loss with exact sums {exact:.4f}, with int8 {loss:.4f} {' '.join(flags)}")
            expect(abs(loss / exact - 1) < 0.05, f"held-out loss {loss} beside {exact} with exact sums")
        plan = subprocess.run([PROGRAM, "plan", rounded], capture_output=True, text=True, check=True).stdout
        expect("int8 sums" in plan and "swarm.sums: exact" in plan, plan)
        refused(run_with(directory, seed, "int7", "int7"), "exact or int8")
        refused(run_with(directory, seed, "reproducible", "int8", mode="reproducible"), "set train.mode to fast")


main()
