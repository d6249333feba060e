#!/usr/bin/env python3
"""Peers with two slots complete iterations of eight microbatches, also under kills."""

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=12)
        weights = Braid("up", run, "--capacity", "2", "--relays", "3").weights()
        alone = solo(run, 12)
        expect(weights == alone, f"{weights} is not {alone}")

        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, name="wild.yaml")
        wild = Braid("up", run, "--capacity", "2", "--relays", "6", "--chaos", f"kills=3,joins=1,within=12,seed={seed}")
        wild.wait_for_killed(3)
        done, weights = wild.end()
        alone = solo(run, done)
        print(f"{done} iterations in {wild.events[-1]['seconds']:.1f} s, killed {[event['phase'] for event in wild.of('killed')]}")
        expect(weights == alone, f"some were killed, {done} iterations: {weights} is not {alone}")


main()
