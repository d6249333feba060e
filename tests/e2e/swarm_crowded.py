#!/usr/bin/env python3
"""Stages of more relays than a router may have neighbours, so that gossip chooses them, and of more holders of sums than 32: some are
killed, some come late, and the weights are those of one process."""

from swarmlib import Braid, expect, seed_of_test, workplace, write_run

EACH = 33  # relays of a stage


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=10, stages="[0, 1, 2]", data_peers=1, microbatches=2 * EACH)
        solo = Braid("train", "--solo", run).weights()
        # four are to die in backward, for in such a crowd one may have none
        flags = ["--kill", "any@iteration:3", *4 * ["--kill", "any@iteration:4/backward"], "--late", "2@iteration:4"]
        swarm = Braid("up", run, "--relays", str(2 * EACH), *flags)
        weights = swarm.weights()
        stages = [event["stage"] for event in swarm.of("joined") if event.get("role") == "relay"]
        held = max(stages.count(stage) for stage in (1, 2))
        print(f"{swarm.events[-1]['seconds']:.1f} s, {len(stages)} relays joined, killed {len(swarm.of('killed'))}, {swarm.events[-1]['repairs']} repairs")
        expect(weights == solo, f"{weights} is not {solo}")
        dead = [event["phase"] for event in swarm.of("killed")]
        expect("backward" in dead and len(dead) > 1, f"killed at {dead} only")
        expect(held > 32, f"at most {held} relays were in a stage")
        routed = {(flows["peer"], flow["to"]) for flows in swarm.of("flows") for flow in flows["flow"] if flows["stage"] == 1}
        expect(routed, "no relay of the first crowded stage told where its units go")


main()
