#!/usr/bin/env python3
"""A joining relay is killed (kill -9) while it fetches its stage's state, and restarted with its identity. Then one of the two
sources is killed during the transfer. The relay gets the state, and the weights are those of one process."""

import os
import signal

from swarmlib import ENDLESS, Braid, end_run, expect, expect_clean_exits, seed_of_test, solo, workplace, write_run


def larger(run):
    """Makes a stage's state several chunks long."""
    with open(run, encoding="ascii") as file:
        text = file.read()
    with open(run, "w", encoding="ascii") as file:
        file.write(text.replace("dim: 32, layers: 3, heads: 2", "dim: 256, layers: 3, heads: 4"))
    return run


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = larger(write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=1, stages="[0, 3]", sequences=1, microbatches=4))
        here = ("--listen", "127.0.0.1:0")
        lead = Braid("node", "--lead", "--supervised", "--run", run, "--wait-relays", "2", *here, commands=True)
        ticket = lead.wait_for("ready")["ticket"]
        relays = [Braid("node", "--join", ticket, *here) for _ in range(2)]
        lead.wait_for("iteration", iteration=3)

        again = ("node", "--join", ticket, "--identity", os.path.join(directory, "joiner.key"), *here)
        first = Braid(*again, "--die-at", f"transfer:{1 + seed % 2}")
        expect(first.finish() == -signal.SIGKILL, "it was to die while it fetches")
        second = Braid(*again)
        begun = second.wait_for("transfer")
        relays[seed % 2].stop()
        second.wait_until(lambda: any(event["done"] == event["total"] for event in second.of("transfer")), "all of the state")
        print(f"it died with {first.of('transfer')[-1]['done'] if first.of('transfer') else 0} blocks of {begun['total']}, and a donor when it had {begun['done']} again")
        lead.wait_until(lambda: len(lead.of("expelled")) >= 2, "the expulsion of both")  # iterations may be faster than the expulsions
        lead.wait_for_iterations(3)
        done, weights = end_run([lead])
        expect_clean_exits([second, relays[1 - seed % 2]])
        expect(len(lead.of("expelled")) == 2, f"two were to be expelled: {lead.of('expelled')}")
        alone = solo(run, done)
        expect(weights == alone, f"{done} iterations: weights {weights}, solo {alone}")


main()
