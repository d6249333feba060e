#!/usr/bin/env python3
"""Each data peer has a text of its own, and three of them vote. Two of the three are killed (kill -9) at once, the leader among
them. `braid up` restarts both, they read their logs, and the weights are those of one process. They die just after an iteration,
so they may be the only two with its results (docs/protocol.md, Known limits). Then the run rolls back, and repeated iterations
are reported again."""

import os
import signal

from swarmlib import Braid, expect, expect_each_iteration_once, make_texts_private, seed_of_test, workplace, write_run, write_text

ITERATIONS = 25


def describe(directory, seed):
    texts = [os.path.join(directory, f"own{i}.txt") for i in range(3)]
    for i, text in enumerate(texts):
        write_text(text, seed + i)
    run = write_run(directory, seed=seed, iterations=ITERATIONS, data_peers=3)
    make_texts_private(run, texts)
    return run


def kill_two_voters(run, solo, place, victims, *arguments):
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
    expect_each_iteration_once(up, ITERATIONS)
    relays = [event for event in up.of("expelled") if event["role"] == "relay"]
    expect(not relays, f"no relay died: {relays}")
    expect(not os.listdir(place), f"this stays behind: {os.listdir(place)}")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = describe(directory, seed)
        solo = Braid("train", "--solo", run).weights()
        kill_two_voters(run, solo, os.path.join(directory, "first"), ("leader", "data2"))
        kill_two_voters(run, solo, os.path.join(directory, "second"), ("data3", "leader"), "--log", os.path.join(directory, "log"))


main()
