#!/usr/bin/env python3
"""All relays of a stage are killed (kill -9) at once, with the standbys on their machines. A standby beside a peer of another stage
takes over, and the weights are those of one process."""

import time

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=1, stages="[0, 2, 1]")
        # late enough for the standby, which joins at the start of the run, to have the state
        phase = ["forward", "backward", "committed", "weight"][seed % 4]
        swarm = Braid("up", run, "--relays", "4", "--shadows", "1", "--kill", f"stage:2@iteration:15/{phase}")
        swarm.wait_for("killed")
        killed = time.monotonic()
        swarm.wait_for("promoted")
        promotion = time.monotonic() - killed
        swarm.wait_for_iterations(1)
        print(f"promoted {promotion:.2f} s after the kill, the next iteration complete after {time.monotonic() - killed:.2f} s")
        done, weights = swarm.end()
        alone = solo(run, done)
        shadows = [event for event in swarm.of("joined") if event["role"] == "shadow"]
        promoted = [event["stage"] for event in swarm.of("promoted")]
        print(f"in {phase}: shadows of stages {sorted(event['stage'] for event in shadows)}, promoted in {promoted}")
        expect(len(swarm.of("killed")) == 2, "two relays of the stage were to die")
        expect(promoted == [2], "a shadow was to take the work of the stage")
        expect(weights == alone, f"{done} iterations: weights {weights}, solo {alone}")


main()
