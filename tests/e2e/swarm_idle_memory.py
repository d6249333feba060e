#!/usr/bin/env python3
"""A relay that waits for the start of the run has at most 20 MiB of memory beyond its stage's state."""

from swarmlib import Braid, expect, workplace, write_run

LIMIT = 20 << 20


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def main():
    with workplace() as directory:
        run = write_run(directory, data_peers=1)
        leader = Braid("node", "--lead", "--run", run, "--listen", "127.0.0.1:0", "--wait-relays", "5")
        ticket = leader.wait_for("ready")["ticket"]
        relays = [Braid("node", "--join", ticket, "--listen", "127.0.0.1:0") for _ in range(3)]
        try:
            for number in range(3):
                leader.wait_for("joined", stage=number + 1)
            for relay in relays:
                relay.wait_for("joined", stage=1)
            state = 3 * 4 * 20000  # weights and moments; a stage of this model has about 10,000 parameters
            for relay in relays:
                used = resident(relay.process)
                print(f"resident {used / 2**20:.1f} MiB")
                expect(used <= LIMIT + state, f"an idle relay takes {used / 2**20:.1f} MiB")
        finally:
            for peer in [leader, *relays]:
                peer.stop()


main()
