#!/usr/bin/env python3
"""The weights are equal, bit for bit: after 80 iterations of one process with one thread and with two, and of a swarm of eight. Also
for a swarm of eight under kills in each phase and joins, which runs until all of these have happened. Then the same with the
fastest products of this processor."""

import random

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run

POINTS = ("forward", "complete-sent", "backward", "committed", "weight", "reduction", "final")


def kills(seed):
    """One death at each point of the protocol, spread over the run; the victim is a dispensable relay."""
    order = random.Random(seed).sample(POINTS, len(POINTS))
    flags = ["--late", "2@iteration:2", "--late", "2@iteration:8", "--late", "2@iteration:16", "--late", "2@iteration:24"]
    for i, point in enumerate(order):
        flags += ["--kill", f"any@iteration:{3 + 6 * i}/{point}"]
    return flags


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, sequences=16, iterations=80)
        one = solo(run, 80, "--threads", "1")
        two = solo(run, 80, "--threads", "2")
        expect(one == two, f"two threads: {two} is not {one}")

        calm = Braid("up", run, "--relays", "6")
        weights = calm.weights()
        expect(weights == one, f"a swarm of eight: {weights} is not {one}")
        expect(len(calm.of("iteration")) == 80, f"{len(calm.of('iteration'))} iterations told")

        run = write_run(directory, seed=seed, sequences=16, iterations=40, products="fastest", name="fastest.yaml")
        one = solo(run, 40)
        weights = Braid("up", run, "--relays", "6").weights()
        expect(weights == one, f"a swarm of eight with the fastest products: {weights} is not {one}")

        run = write_run(directory, seed=seed, sequences=16, iterations=ENDLESS, warmup=2, name="wild.yaml")
        # with two slots a relay, each relay of a stage gets work
        wild = Braid("up", run, "--relays", "6", "--capacity", "2", *kills(seed))
        wild.wait_for_killed(len(POINTS))
        wild.wait_until(lambda: len({event["peer"] for event in wild.of("joined") if event.get("role") == "relay"}) >= 8, "eight relays")
        done, weights = wild.end()
        one = solo(run, done)
        dead = wild.of("killed")
        phases = {event["phase"] for event in dead}
        print(f"killed {len(dead)}: {sorted(phases)}; repairs {wild.events[-1]['repairs']}; {done} iterations in {wild.events[-1]['seconds']:.1f} s")
        expect(weights == one, f"a swarm with kills, {done} iterations: {weights} is not {one}")
        expect(phases == set(POINTS), f"killed at {sorted(phases)} only")


main()
