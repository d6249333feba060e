#!/usr/bin/env python3
"""All processes of a run die at once (kill -9) with more log entries than a process keeps in memory, and are restarted with the
same command lines. The second time the peer that the data peers' tickets name stays away. Each time the run continues from its
last checkpoint, and it ends with the weights of one process. A data peer with a log of the old run ends with the reason when
the run is started anew."""

import os

from swarmlib import ENDLESS, Braid, end_run, expect, expect_clean_exits, free_ports, seed_of_test, solo, workplace, write_run

ENTRIES = 256  # log entries in memory (RAFT_WINDOW)
EVERY = 50     # iterations between checkpoints


class Swarm:
    """Three data peers and two relays; each restart has the same command line, key and log."""

    def __init__(self, directory, seed):
        self.directory = directory
        self.run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=3, stages="[0, 2, 1]", microbatches=3, sequences=1)
        with open(self.run, "a", encoding="ascii") as file:
            file.write(f"checkpoint: {{dir: {os.path.join(directory, 'saved')}, every: {EVERY}}}\n")
        self.ports = free_ports(5)
        self.peers = {}
        self.tickets = [self.start(0).wait_for("ready")["ticket"]]
        self.tickets += [self.start(number).wait_for("ready")["ticket"] for number in (1, 2)]
        for number in (3, 4):
            self.start(number)

    def start(self, number, *flags, sponsor=0):
        own = ("--identity", os.path.join(self.directory, f"key{number}"), "--log", os.path.join(self.directory, f"log{number}"))
        line = ["node", "--listen", f"127.0.0.1:{self.ports[number]}", *own, "--voters", "3", "--supervised", *flags]
        if number < 3:
            line += ["--run", self.run]
        line += ["--lead", "--wait-data-peers", "3", "--wait-relays", "2"] if number == 0 else ["--join", self.tickets[sponsor]]
        if number in (1, 2):
            line.append("--data")
        self.peers[number] = Braid(*line, commands=True)
        return self.peers[number]

    def data(self):
        return [peer for number, peer in sorted(self.peers.items()) if number < 3]

    def cut(self):
        """Kills all. Returns the number of complete iterations."""
        for peer in self.peers.values():
            peer.process.kill()
        for peer in self.peers.values():
            peer.stop()
        done = max(event["iteration"] for peer in self.data() for event in peer.of("iteration"))
        self.peers = {}
        return done

    def expect_back(self, witness, done):
        back = self.peers[witness].wait_for("rolled_back")["iteration"]
        print(f"killed in iteration {done} or soon after; the run went back to {back}")
        expect(back >= done // EVERY * EVERY, f"not to the last checkpoint, but to {back}")
        self.peers[witness].wait_for("iteration", iteration=back + EVERY + 3)


def begin_anew(directory, seed):
    swarm = Swarm(directory, seed)
    swarm.peers[1].wait_for("iteration", iteration=3)
    swarm.cut()
    alone = swarm.start(1)
    alone.wait_for("note", text="continuing from the log")
    lead = swarm.start(0, "--anew")
    expect(alone.finish() != 0 and any("restart this peer" in line for line in alone.complaints), f"not told that the run was begun anew: {alone.complaints}")
    for number in range(1, 5):
        swarm.start(number)
    lead.wait_for("iteration", iteration=1)
    swarm.cut()


def main():
    seed = seed_of_test()
    with workplace() as directory:
        begin_anew(directory, seed)
    with workplace() as directory:
        swarm = Swarm(directory, seed)
        # CLOSE and FINAL are two entries; the last checkpoint is not recent
        swarm.peers[1].wait_for("iteration", iteration=ENTRIES // 2 + 42)
        done = swarm.cut()
        for number in range(5):
            swarm.start(number)
        swarm.expect_back(1, done)

        done = swarm.cut()
        for number in range(1, 5):
            swarm.start(number, sponsor=1 if number > 2 else 0)
        swarm.expect_back(1, done)
        ended, weights = end_run(swarm.data())
        expect_clean_exits([swarm.peers[3], swarm.peers[4]])
        alone = solo(swarm.run, ended)
        expect(weights == alone, f"{ended} iterations: weights {weights}, solo {alone}")


main()
