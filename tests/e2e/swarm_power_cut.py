#!/usr/bin/env python3
"""All processes of a run die at once (kill -9), when there is more in the voters' stores than a process keeps in memory, and are started
again with the same lines. The run goes on from its last checkpoint, and ends with the weights of one process."""

import os

from swarmlib import ENDLESS, Braid, end_whoever_leads, expect, expect_ended_well, free_ports, seed_of_test, solo, workplace, write_run

ENTRIES = 256  # in memory (RAFT_WINDOW)


def start(directory, run, ports, ticket=None):
    def data(number, *arguments):
        own = ("--identity", os.path.join(directory, f"key{number}"), "--log", os.path.join(directory, f"log{number}"))
        return Braid("node", "--listen", f"127.0.0.1:{ports[number]}", "--supervised", "--run", run, *own, *arguments, commands=True)

    lead = data(0, "--lead", "--wait-data-peers", "3", "--wait-relays", "2")
    ticket = ticket or lead.wait_for("ready")["ticket"]
    others = [data(number, "--data", "--join", ticket) for number in (1, 2)]
    relays = [Braid("node", "--listen", "127.0.0.1:0", "--join", ticket) for _ in range(2)]
    return ticket, [lead, *others], relays


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=3, stages="[0, 2, 1]", microbatches=3, sequences=1)
        with open(run, "a", encoding="ascii") as file:
            file.write(f"checkpoint: {{dir: {os.path.join(directory, 'saved')}, every: 50}}\n")
        ports = free_ports(3)
        ticket, data, relays = start(directory, run, ports)
        # CLOSE and FINAL are two entries
        data[0].wait_for("iteration", iteration=ENTRIES // 2 + 20)
        for peer in (*data, *relays):
            peer.process.kill()
        done = data[0].of("iteration")[-1]["iteration"]
        for peer in (*data, *relays):
            peer.stop()

        _, data, relays = start(directory, run, ports, ticket)
        back = data[0].wait_for("rolled_back")
        print(f"killed in iteration {done} or soon after; the run went back to {back['iteration']}")
        expect(back["iteration"] >= done // 50 * 50, f"not to the last checkpoint: {back}")
        data[0].wait_for("iteration", iteration=back["iteration"] + 3)
        ended, weights = end_whoever_leads(data)
        expect_ended_well(relays)
        alone = solo(run, ended)
        expect(weights == alone, f"{ended} iterations: weights {weights}, solo {alone}")


main()
