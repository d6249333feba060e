#!/usr/bin/env python3
"""Each data peer has a text of its own and three of them keep the log. Two of the three are killed at once (kill -9) from outside, whoever
leads among them: `braid up` starts both again, they find what they had stored, and the weights are those of one process. They die
when an iteration has just ended, so they may be the only two that have its results yet (docs/protocol.md, Known limits):
then the run goes back, and what is computed again is told again."""

import os
import signal

from swarmlib import Braid, expect, expect_each_once, keep_private, seed_of_test, workplace, write_run, write_text

ITERATIONS = 25


def describe(directory, seed):
    texts = [os.path.join(directory, f"own{i}.txt") for i in range(3)]
    for i, text in enumerate(texts):
        write_text(text, seed + i)
    run = write_run(directory, seed=seed, iterations=ITERATIONS, data_peers=3)
    keep_private(run, texts)
    return run


def two_die(run, solo, place, victims, *arguments):
    os.mkdir(place)
    up = Braid("up", run, "--relays", "3", "--voters", "3", *arguments, env={"TMPDIR": place})
    up.wait_for("iteration", iteration=5)
    processes = {event["role"]: event["process"] for event in up.of("spawned")}
    for victim in victims:
        os.kill(processes[victim], signal.SIGKILL)
    weights = up.weights()
    expect(weights == solo, f"{victims} died: {weights} is not {solo}")
    again = [event["role"] for event in up.of("spawned")[len(processes):]]
    expect(sorted(again) == sorted("data1" if victim == "leader" else victim for victim in victims), f"{victims} died, {again} were started again")
    expect_each_once(up, ITERATIONS)
    relays = [event for event in up.of("expelled") if event["role"] == "relay"]
    expect(not relays, f"no relay died: {relays}")
    expect(not os.listdir(place), f"this stays behind: {os.listdir(place)}")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = describe(directory, seed)
        solo = Braid("train", "--solo", run).weights()
        two_die(run, solo, os.path.join(directory, "first"), ("leader", "data2"))
        two_die(run, solo, os.path.join(directory, "second"), ("data3", "leader"), "--log", os.path.join(directory, "log"))


main()
