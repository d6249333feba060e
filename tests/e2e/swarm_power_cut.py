#!/usr/bin/env python3
"""All processes of a run die at once (kill -9), when there is more in the voters' stores than a process keeps in memory, and are started
again with the same lines; then once more, and whom the data peers were told to join stays away. Each time the run goes on from its last
checkpoint, and it ends with the weights of one process."""

import os

from swarmlib import ENDLESS, Braid, end_whoever_leads, expect, expect_ended_well, free_ports, seed_of_test, solo, workplace, write_run

ENTRIES = 256  # in memory (RAFT_WINDOW)
EVERY = 50     # iterations, a checkpoint


class Swarm:
    """Three data peers and two relays, each with the same line, key and log in every life."""

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

    def start(self, number, sponsor=0):
        own = ("--identity", os.path.join(self.directory, f"key{number}"), "--log", os.path.join(self.directory, f"log{number}"))
        line = ["node", "--listen", f"127.0.0.1:{self.ports[number]}", *own, "--voters", "3", "--supervised"]
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
        """Returns how many iterations were complete."""
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


def main():
    seed = seed_of_test()
    with workplace() as directory:
        swarm = Swarm(directory, seed)
        # CLOSE and FINAL are two entries
        swarm.peers[1].wait_for("iteration", iteration=ENTRIES // 2 + 20)
        done = swarm.cut()
        for number in range(5):
            swarm.start(number)
        swarm.expect_back(1, done)

        done = swarm.cut()
        for number in range(1, 5):
            swarm.start(number, sponsor=1 if number > 2 else 0)
        swarm.expect_back(1, done)
        ended, weights = end_whoever_leads(swarm.data())
        expect_ended_well([swarm.peers[3], swarm.peers[4]])
        alone = solo(swarm.run, ended)
        expect(weights == alone, f"{ended} iterations: weights {weights}, solo {alone}")


main()
