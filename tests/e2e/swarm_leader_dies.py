#!/usr/bin/env python3
"""The leader is killed (kill -9) in the middle of a run of real processes, and once more whoever leads then. Others lead, the
first one comes back with what it had stored of the log, and the weights are those of one process."""

import os
import time

from swarmlib import Braid, expect, seed_of_test, workplace, write_run


def start(directory, run):
    def node(*arguments):
        return Braid("node", "--listen", "127.0.0.1:0", *arguments)

    lead = node("--lead", "--run", run, "--wait-data-peers", "3", "--wait-relays", "4", "--log", os.path.join(directory, "log1"))
    ticket = lead.wait_for("ready")["ticket"]
    data = [node("--data", "--run", run, "--join", ticket, "--log", os.path.join(directory, f"log{i}")) for i in (2, 3)]
    relays = [node("--join", ticket) for _ in range(4)]
    return [lead, *data, *relays]


def led_by(peers):
    """The newest change of leader that any of them has told."""
    for peer in peers:
        peer.wait_for("leader")
    return peers[0].of("leader")[-1]


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=40, data_peers=3)
        solo = Braid("train", "--solo", run).weights()
        peers = start(directory, run)
        peers[1].wait_for("iteration", iteration=5)
        peers[0].process.kill()
        killed = time.monotonic()
        ticket = led_by(peers[1:])["ticket"]
        print(f"another one led {time.monotonic() - killed:.2f} s after the leader was killed")
        last = max(event["iteration"] for event in peers[1].of("iteration"))
        peers[1].wait_for("iteration", iteration=last + 3)
        back = Braid("node", "--listen", "127.0.0.1:0", "--data", "--run", run, "--join", ticket, "--log", os.path.join(directory, "log1"))
        back.wait_for("joined")
        rest = [*peers[1:], back]
        ends = [peer for peer in rest if peer.finish() == 0]
        expect(len(ends) == len(rest), "not all ended well")
        hashes = {event["weights"] for peer in rest for event in peer.of("end") if event.get("weights")}
        print(f"weights {hashes}, solo {solo}")
        expect(hashes == {solo}, "other weights than solo's")


main()
