#!/usr/bin/env python3
"""A relay, a data peer and the leader are paused (SIGSTOP) one after the other until each is expelled. Then each is resumed
(SIGCONT) and readmitted, and the weights are those of one process."""

import os
import signal
import time

from swarmlib import ENDLESS, Braid, end_run, expect, expect_clean_exits, seed_of_test, solo, workplace, write_run


def start(directory, run):
    def node(name, *arguments):
        own = ("--identity", os.path.join(directory, name), "--log", os.path.join(directory, name + ".log"))
        return Braid("node", "--listen", "127.0.0.1:0", "--supervised", *own, *arguments, commands=True)

    lead = node("data1", "--lead", "--run", run, "--wait-data-peers", "3", "--wait-relays", "4")
    join = ("--join", lead.wait_for("ready")["ticket"])
    return [lead] + [node(f"data{i}", "--data", "--run", run, *join) for i in (2, 3)], [node(f"relay{i}", *join) for i in range(1, 5)]


def name_of(peer):
    return peer.wait_for("ready")["peer"]


def pause_until_expelled(peer, witness):
    """Pauses a peer until the run has continued without it, and waits for its readmission."""
    name, stopped = name_of(peer), time.monotonic()
    joined = [event["peer"] for event in witness.of("joined")].count(name)
    peer.process.send_signal(signal.SIGSTOP)
    gone = witness.wait_for("expelled", peer=name)
    took = time.monotonic() - stopped
    witness.wait_for_iterations(2)
    peer.process.send_signal(signal.SIGCONT)
    witness.wait_until(lambda: [event["peer"] for event in witness.of("joined")].count(name) > joined, "the return")
    print(f"expelled after {took:.1f} s: {gone['reason']}; back after {time.monotonic() - stopped:.1f} s", flush=True)
    peer.wait_for_iterations(1)


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=3, stages="[0, 2, 1]")
        data, relays = start(directory, run)
        data[1].wait_for("iteration", iteration=3)
        for peer in relays[0], data[2], data[0]:
            pause_until_expelled(peer, data[1])
        leader = data[1].of("leader")[-1]["peer"]
        expect(leader != name_of(data[0]), "no other peer has led")
        done, weights = end_run(data)
        expect_clean_exits(relays)
        alone = solo(run, done)
        print(f"{done} iterations; weights {weights}, solo {alone}")
        expect(weights == alone, "the weights differ from solo's")


main()
