#!/usr/bin/env python3
"""Whole-model peers: the weights are those of one process in a run of whole-model peers alone, in a mixed run with kill -9 of a
data peer, a relay, a whole-model peer and the process of one of its stages, and when whole-model peers join and leave."""

import os
import re
import signal

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run

STAGES = 4


def members_of(process):
    """The processes of a whole-model peer's other stages: its children."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{name}/cmdline", encoding="utf-8") as file:
                arguments = file.read().split("\0")
        except OSError:
            continue
        if parent == process and "--stage" in arguments:
            found[int(arguments[arguments.index("--stage") + 1])] = int(name)
    return found


def alone(run, one):
    swarm = Braid("up", run, "--whole", "2")
    weights = swarm.weights()
    expect(weights == one, f"two whole-model peers and no relay: {weights} is not {one}")
    spawned = [event["role"] for event in swarm.of("spawned")]
    expect(spawned == ["leader", "whole2"], f"{spawned} were started")


def small(run, one, directory):
    """The memory of a machine is divided; with a directory for the state it may be smaller."""
    least = Braid("up", run, "--whole", "1", "--max-memory", "1M", "--capacity", "1")
    expect(least.finish() != 0, "a machine with 1 MiB trained the model")
    found = re.search(r"raise it to at least (\d+)K.*--state-dir", "".join(least.complaints))
    expect(found, f"the least memory is not named: {least.complaints}")
    limit = int(found[1])
    weights = Braid("up", run, "--whole", "1", "--max-memory", f"{limit}K", "--capacity", "1").weights()
    expect(weights == one, f"with {limit} KiB: {weights} is not {one}")
    less = Braid("up", run, "--whole", "1", "--max-memory", f"{limit - 200}K", "--capacity", "1", "--state-dir", directory)
    weights = less.weights()
    expect(weights == one, f"with {limit - 200} KiB and a file: {weights} is not {one}")


def mixed(run):
    orders = ["--kill", "whole@iteration:4", "--kill", "data@iteration:9", "--kill", "any@iteration:6/backward"]
    swarm = Braid("up", run, "--whole", "2", "--relays", "6", *orders)
    swarm.wait_for_killed(3)
    spawned = {event["role"]: event["process"] for event in swarm.of("spawned")}
    killed = {event["process"] for event in swarm.of("killed")}
    living = [process for role, process in spawned.items() if role.startswith("whole") and process not in killed]
    expect(len(living) == 1, f"{living} of the two whole-model peers live")
    members = members_of(living[0])
    expect(sorted(members) == list(range(1, STAGES)), f"the whole-model peer has the stages {members}")
    joined = len(swarm.of("joined"))
    os.kill(members[2], signal.SIGKILL)  # it is started again
    swarm.wait_until(lambda: len(swarm.of("joined")) > joined, "another member of stage 2")
    done, weights = swarm.end()
    one = solo(run, done)
    print(f"mixed: {done} iterations, repairs {swarm.events[-1]['repairs']}, {swarm.events[-1]['seconds']:.1f} s")
    expect(weights == one, f"a mixed swarm with kills, {done} iterations: {weights} is not {one}")


def joins(run):
    """A whole-model peer without the text is a member of all stages but 0, and leaves them in order."""
    swarm = Braid("up", run, "--relays", "3")
    ticket = swarm.wait_for("ready")["ticket"]
    swarm.wait_for("iteration", iteration=2)
    guest = Braid("node", "--join", ticket, "--whole", "--listen", "127.0.0.1:0")
    note = guest.wait_for("note", text="placed as a whole-model peer")["text"]
    expect("in the stages 1 to 3: asked for" in note, note)
    swarm.wait_for_iterations(5)
    guest.interrupt()
    expect(guest.finish() == 0, f"the whole-model peer ended with {guest.process.returncode}: {guest.complaints}")
    swarm.wait_for_iterations(3)
    left = [event["stage"] for event in swarm.of("left")]
    expect(sorted(left) == [1, 2, 3], f"members of the stages {left} left in order")
    done, weights = swarm.end()
    one = solo(run, done)
    expect(weights == one, f"a whole-model peer came and went, {done} iterations: {weights} is not {one}")


def local(directory, seed):
    """Local steps: the weights are those of one process, when a peer is killed, too."""
    run = write_run(directory, seed=seed, sequences=4, iterations=16, stages="[3]", microbatches=5, local_steps=3, name="local.yaml")
    one = solo(run, 16)
    expect(solo(run, 16, "--threads", "2") == one, "local steps depend on threads")
    swarm = Braid("up", run, "--whole", "3", "--kill", "whole@iteration:4")
    weights = swarm.weights()
    expect(weights == one, f"local steps of three peers, of which one dies: {weights} is not {one}")
    expect(len(swarm.of("killed")) == 1, "no peer was killed")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, sequences=8, iterations=20, data_peers=2)
        one = solo(run, 20)
        alone(run, one)
        small(run, one, directory)
        run = write_run(directory, seed=seed, sequences=8, iterations=ENDLESS, warmup=2, data_peers=2, name="endless.yaml")
        local(directory, seed)
        mixed(run)
        joins(run)


main()
