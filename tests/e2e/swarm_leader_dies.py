#!/usr/bin/env python3
"""The leader is killed (kill -9) during a run of real processes. Another one leads, the first one returns with its log, and the
weights are those of one process."""

import os
import time

from swarmlib import ENDLESS, Braid, end_run, expect, expect_clean_exits, seed_of_test, solo, workplace, write_run


def start_data(directory, run, number, *arguments):
    own = ("--identity", os.path.join(directory, f"key{number}"), "--log", os.path.join(directory, f"log{number}"))
    return Braid("node", "--listen", "127.0.0.1:0", "--supervised", "--run", run, *own, *arguments, commands=True)


def start(directory, run):
    lead = start_data(directory, run, 1, "--lead", "--wait-data-peers", "3", "--wait-relays", "4")
    ticket = lead.wait_for("ready")["ticket"]
    data = [start_data(directory, run, number, "--data", "--join", ticket) for number in (2, 3)]
    relays = [Braid("node", "--listen", "127.0.0.1:0", "--supervised", "--join", ticket, commands=True) for _ in range(4)]
    relays[0].send_command("die-at final\nlive")  # a revoked order to die has no effect
    return [lead, *data, *relays]


def newest_leader(peers):
    """Returns the newest change of leader that any of them reports."""
    for peer in peers:
        peer.wait_for("leader")
    return peers[0].of("leader")[-1]


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=3)
        peers = start(directory, run)
        peers[1].wait_for("iteration", iteration=5)
        peers[0].process.kill()
        killed = time.monotonic()
        ticket = newest_leader(peers[1:])["ticket"]
        print(f"another one led {time.monotonic() - killed:.2f} s after the leader was killed")
        peers[1].wait_for_iterations()
        back = start_data(directory, run, 1, "--data", "--join", ticket)
        back.wait_for("joined")
        back.wait_for_iterations()
        done, weights = end_run([*peers[1:3], back])
        expect_clean_exits(peers[3:])
        alone = solo(run, done)
        print(f"{done} iterations; weights {weights}, solo {alone}")
        expect(weights == alone, "other weights than solo's")


main()
