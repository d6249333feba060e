#!/usr/bin/env python3
"""Peers that hold two microbatches at once, of eight in an iteration, finish, also while some of them are killed."""

from swarmlib import Braid, expect, seed_of_test, workplace, write_run


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=12)
        solo = Braid("train", "--solo", run).weights()
        for flags in (["--relays", "3"], ["--relays", "6", "--chaos", f"kills=3,joins=1,seed={seed}"]):
            swarm = Braid("up", run, "--capacity", "2", *flags)
            weights = swarm.weights()
            print(f"{' '.join(flags)}: {swarm.events[-1]['seconds']:.1f} s, killed {len(swarm.of('killed'))}")
            expect(weights == solo, f"{flags}: {weights} is not {solo}")


main()
