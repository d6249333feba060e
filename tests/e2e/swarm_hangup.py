#!/usr/bin/env python3
"""A terminal closes (SIGHUP): its relay finishes the iteration and leaves, without an expulsion. A relay under nohup continues."""

import signal

from swarmlib import Braid, expect, seed_of_test, workplace, write_run


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=60, data_peers=1, stages="[0, 3]")
        solo = Braid("train", "--solo", run).weights()
        lead = Braid("node", "--listen", "127.0.0.1:0", "--lead", "--run", run, "--wait-relays", "3")
        ticket = lead.wait_for("ready")["ticket"]
        relays = [Braid("node", "--listen", "127.0.0.1:0", "--join", ticket, inside=["nohup"] if i == 0 else []) for i in range(3)]
        lead.wait_for("iteration", iteration=3)
        for relay in relays[:2]:
            relay.process.send_signal(signal.SIGHUP)
        left = lead.wait_for("left")
        expect(left["peer"] == relays[1].of("ready")[0]["peer"], f"somebody else has left: {left}")
        expect(lead.weights() == solo, "other weights than solo's")
        expect(all(relay.finish() == 0 for relay in relays), "not all ended well")
        expect(len(lead.of("left")) == 1 and not lead.of("expelled"), "not one has left")


main()
