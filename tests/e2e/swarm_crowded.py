#!/usr/bin/env python3
"""Stages with more relays than a router's neighbours, so gossip chooses them, and with more than 32 holders of sums. Some relays
are killed, some join late, and the weights are those of one process."""

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run

EACH = 33  # relays of each stage


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, stages="[0, 1, 2]", data_peers=1, microbatches=2 * EACH)
        flags = ["--kill", "any@iteration:3", "--kill", "any@iteration:4/backward", "--kill", "any@iteration:4/backward", "--late", "2@iteration:4"]
        swarm = Braid("up", run, "--relays", str(2 * EACH), *flags)
        swarm.wait_for_killed(3)
        swarm.wait_until(lambda: any(flows["flow"] for flows in swarm.of("flows") if flows["stage"] == 1), "a word of where units of the first crowded stage go")
        done, weights = swarm.end()
        alone = solo(run, done)
        stages = [event["stage"] for event in swarm.of("joined") if event.get("role") == "relay"]
        held = max(stages.count(stage) for stage in (1, 2))
        print(f"{done} iterations in {swarm.events[-1]['seconds']:.1f} s, {len(stages)} relays joined, killed {len(swarm.of('killed'))}, {swarm.events[-1]['repairs']} repairs")
        expect(weights == alone, f"{done} iterations: {weights} is not {alone}")
        dead = [event["phase"] for event in swarm.of("killed")]
        expect(sorted(dead) == ["", "backward", "backward"], f"killed at {dead}")
        expect(held > 32, f"at most {held} relays were in a stage")


main()
