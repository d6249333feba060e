#!/usr/bin/env python3
"""Data peers are killed at every point of the protocol, one while it leads; others take their microbatches over and lead, and
the weights are those of one process, bit for bit."""

from swarmlib import Braid, expect, seed_of_test, workplace, write_run

ITERATIONS = 130
POINTS = ("forward", "complete-sent", "backward", "committed", "weight", "reduction", "final")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        # nobody is killed whose death would end the run, so the next one waits until another voter is there: that takes two seconds
        run = write_run(directory, seed=seed, sequences=16, iterations=ITERATIONS, data_peers=3)
        solo = Braid("train", "--solo", run).weights()

        one = Braid("up", run, "--relays", "6", "--kill", "data2@iteration:5", "--kill", "leader@iteration:9/reduction")
        weights = one.weights()
        expect(weights == solo, f"a data peer and the leader killed: {weights} is not {solo}")
        expect(len(one.of("killed")) == 2, f"killed {len(one.of('killed'))}, not both")
        expect(len(one.of("leader")) == 1, f"told who leads now {len(one.of('leader'))} times, not once")
        expect([event["iteration"] for event in one.of("iteration")] == list(range(1, ITERATIONS + 1)), "an iteration was told twice, or not at all")
        expect(one.of("takeover"), "nobody is told who takes over")

        wild = Braid("up", run, "--relays", "6", "--chaos", f"kills=3,joins=2,data={len(POINTS)},seed={seed}")
        weights = wild.weights()
        dead = wild.of("killed")
        data = [event["phase"] for event in dead if event["stage"] == 0]
        print(f"killed {len(dead)}, data peers at {sorted(data)}; repairs {wild.events[-1]['repairs']}; {wild.events[-1]['seconds']:.1f} s")
        expect(weights == solo, f"data peers killed at {data}: {weights} is not {solo}")
        expect(len(data) >= 3, f"only {len(data)} data peers died")


main()
