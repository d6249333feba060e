#!/usr/bin/env python3
"""A relay, a data peer and the leader of a swarm of real processes stand still (SIGSTOP), one after the other, until the others have
gone on without them; then they go on (SIGCONT), come back, and the weights are those of one process."""

import os
import signal
import time

from swarmlib import ENDLESS, Braid, end_whoever_leads, expect, expect_ended_well, seed_of_test, solo, workplace, write_run


def start(directory, run):
    def node(name, *arguments):
        own = ("--identity", os.path.join(directory, name), "--log", os.path.join(directory, name + ".log"))
        return Braid("node", "--listen", "127.0.0.1:0", "--supervised", *own, *arguments, commands=True)

    lead = node("data1", "--lead", "--run", run, "--wait-data-peers", "3", "--wait-relays", "4")
    join = ("--join", lead.wait_for("ready")["ticket"])
    return [lead] + [node(f"data{i}", "--data", "--run", run, *join) for i in (2, 3)], [node(f"relay{i}", *join) for i in range(1, 5)]


def name_of(peer):
    return peer.wait_for("ready")["peer"]


def stand_still(peer, witness):
    """Until another one has taken its place."""
    name, stopped = name_of(peer), time.monotonic()
    joined = [event["peer"] for event in witness.of("joined")].count(name)
    peer.process.send_signal(signal.SIGSTOP)
    gone = witness.wait_for("expelled", peer=name)
    took = time.monotonic() - stopped
    witness.go_on(2)
    peer.process.send_signal(signal.SIGCONT)
    witness.wait_until(lambda: [event["peer"] for event in witness.of("joined")].count(name) > joined, "the return")
    print(f"expelled after {took:.1f} s: {gone['reason']}; back after {time.monotonic() - stopped:.1f} s", flush=True)
    peer.go_on(1)


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=3, stages="[0, 2, 1]")
        data, relays = start(directory, run)
        data[1].wait_for("iteration", iteration=3)
        for peer in relays[0], data[2], data[0]:
            stand_still(peer, data[1])
        leader = data[1].of("leader")[-1]["peer"]
        expect(leader != name_of(data[0]), "nobody else has led")
        done, weights = end_whoever_leads(data)
        expect_ended_well(relays)
        alone = solo(run, done)
        print(f"{done} iterations; weights {weights}, solo {alone}")
        expect(weights == alone, "other weights than solo's")


main()
