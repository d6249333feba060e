#!/usr/bin/env python3
"""All relays of a stage are killed (kill -9) at once, so all copies of its state are lost. Others are started, the run rolls back to
its last checkpoint, says so, and ends with the weights of one process. Then the same with standbys that die too."""

import glob
import os
import signal

from swarmlib import ENDLESS, Braid, end_run, expect, expect_each_iteration_once, seed_of_test, solo, workplace, write_run


def run_with_checkpoints(directory, seed, name):
    run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=1, stages="[0, 2, 1]", name=f"{name}.yaml")
    with open(run, "a", encoding="ascii") as file:
        file.write(f"checkpoint: {{dir: {os.path.join(directory, name)}, every: 3}}\n")
    return run


def check(swarm, end, alone, stage):
    swarm.wait_for("rolled_back")
    swarm.wait_for_iterations()
    done, weights = end()
    back = swarm.of("rolled_back")
    expect(len(back) == 1 and back[0]["stage"] == stage, f"the run was to go back once, for stage {stage}: {back}")
    again = back[0]["total"]
    print(f"back to {back[0]['iteration']}, {again} iterations computed again")
    expect(back[0]["iteration"] % 3 == 0 and back[0]["iteration"] > 0 and again <= 3, f"not to the last checkpoint: {back}")
    expect_each_iteration_once(swarm, done)
    expected = solo(alone, done)
    expect(weights == expected, f"{done} iterations: weights {weights}, solo {expected}")


def without_shadows(directory, seed, alone):
    phase = ["forward", "backward", "committed", "weight"][seed % 4]
    run = run_with_checkpoints(directory, seed, "up")
    swarm = Braid("up", run, "--relays", "4", "--kill", f"stage:2@iteration:4/{phase}")
    check(swarm, swarm.end, alone, 2)
    expect(len(swarm.of("killed")) == 2, "two relays of the stage were to die")


def children_of(process):
    for path in glob.glob(f"/proc/{process.pid}/task/*/children"):
        with open(path, encoding="ascii") as file:
            yield from (int(pid) for pid in file.read().split())


def shadows_die_too(directory, seed, alone):
    """A relay for each of two stages, each with a standby for the other stage."""
    run = run_with_checkpoints(directory, seed, "nodes")
    leader = Braid("node", "--lead", "--supervised", "--run", run, "--listen", "127.0.0.1:0", "--wait-relays", "2", "--shadows", "1", commands=True)
    ticket = leader.wait_for("ready")["ticket"]
    relays = [Braid("node", "--join", ticket, "--shadow", "--public-address", "127.0.0.1:0", "--patience", "45s") for _ in range(2)]
    leader.wait_for("iteration", iteration=5)
    stage = {event["peer"]: event["stage"] for event in leader.of("joined") if event["role"] == "relay"}
    relays.sort(key=lambda relay: stage[relay.wait_for("ready")["peer"]])
    shadow = next(children_of(relays[0].process))
    with open(f"/proc/{shadow}/cmdline", encoding="ascii") as file:
        told = file.read().split("\0")
    expect("45000ms" in told and "127.0.0.1:0" in told, f"a shadow does not know where it is reached, or how patient to be: {told}")
    victims = [relays[1].process.pid, *children_of(relays[0].process)]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    late = Braid("node", "--join", ticket)
    check(leader, lambda: end_run([leader]), alone, 2)
    expect(len(victims) == 2, "one shadow was to die with the relay")
    for peer in (*relays, late):
        peer.finish()


def main():
    seed = seed_of_test()
    with workplace() as directory:
        alone = run_with_checkpoints(directory, seed, "solo")
        without_shadows(directory, seed, alone)
        shadows_die_too(directory, seed, alone)


main()
