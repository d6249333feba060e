#!/usr/bin/env python3
"""The weights after 80 iterations are the same, bit for bit: one process with one thread and with two, a swarm of
eight, and a swarm of eight of which relays are killed in every phase while others join."""

import random

from swarmlib import Braid, expect, seed_of_test, workplace, write_run

POINTS = ("forward", "complete-sent", "backward", "committed", "weight", "reduction", "final")


def kills(seed):
    """One death at each point of the protocol, spread over the run; the victim is whoever can be spared."""
    order = random.Random(seed).sample(POINTS, len(POINTS))
    flags = ["--late", "2@iteration:2", "--late", "2@iteration:8", "--late", "2@iteration:16", "--late", "2@iteration:24"]
    for i, point in enumerate(order):
        flags += ["--kill", f"any@iteration:{3 + 6 * i}/{point}"]
    return flags


def main():
    seed = seed_of_test()
    with workplace() as directory:
        # iterations long enough that a process that comes late is there before the next death, on a fast machine too; and so many
        # that the last death on order, which waits until somebody can be spared, still comes about
        run = write_run(directory, seed=seed, sequences=16, iterations=80)
        solo = Braid("train", "--solo", run, "--threads", "1").weights()
        two = Braid("train", "--solo", run, "--threads", "2").weights()
        expect(solo == two, f"two threads: {two} is not {solo}")

        calm = Braid("up", run, "--relays", "6")
        weights = calm.weights()
        expect(weights == solo, f"a swarm of eight: {weights} is not {solo}")
        expect(len(calm.of("iteration")) == 80, f"{len(calm.of('iteration'))} iterations told")

        # with room for two, every relay of a stage gets work, so that a death on order comes about
        wild = Braid("up", run, "--relays", "6", "--capacity", "2", *kills(seed))
        weights = wild.weights()
        dead = wild.of("killed")
        phases = {event["phase"] for event in dead}
        print(f"killed {len(dead)}: {sorted(phases)}; repairs {wild.events[-1]['repairs']}")
        expect(weights == solo, f"a swarm with kills: {weights} is not {solo}")
        expect(phases == set(POINTS), f"killed at {sorted(phases)} only")
        joined = {event["peer"] for event in wild.of("joined") if event.get("role") == "relay"}
        expect(len(joined) >= 8, f"only {len(joined)} relays ever joined")


main()
