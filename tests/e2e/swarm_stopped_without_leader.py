#!/usr/bin/env python3
"""The peer that was started with --lead is dead (kill -9) while another data peer leads and is stopped in order, which ends the
run. So the log of the first one lacks that end. All of them, restarted by their services with the same command lines, soon
continue from a saved state, and end with the weights of one process."""

import os
import signal
import time

from swarmlib import ENDLESS, Braid, expect, free_ports, seed_of_test, solo, workplace, write_run

SERVICE_S = 0.3  # from an end to the next start
MOST_STARTS = 12  # of one service; the old run is over for all of them after two or three


class Service:
    def __init__(self, *line):
        self.line, self.starts, self.ended_at = line, 0, None
        self.start()

    def start(self):
        self.node, self.ended_at = Braid("node", *self.line), None
        self.starts += 1

    def restart_if_ended(self):
        if self.node.process.poll() is None:
            return
        self.ended_at = self.ended_at or time.monotonic()
        if time.monotonic() - self.ended_at >= SERVICE_S:
            self.start()


def data_line(directory, seed, name, *line):
    run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=2, stages="[0, 2, 1]", name=f"{name}.yaml")
    with open(run, "a", encoding="ascii") as file:
        file.write(f"checkpoint: {{dir: {os.path.join(directory, 'saved-' + name)}, every: 3}}\n")
    return (*line, "--continue", "--run", run, *kept(directory, name))


def kept(directory, name):
    return ("--log", os.path.join(directory, name + ".log"), "--identity", os.path.join(directory, name + ".key"))


def start_services(directory, seed):
    lead = Service(*data_line(directory, seed, "lead", "--lead", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--wait-data-peers", "2", "--wait-relays", "3"))
    join = ("--join", lead.node.wait_for("ready")["ticket"], "--listen", "127.0.0.1:0", "--patience", "0")
    data = Service(*data_line(directory, seed, "data", "--data", *join))
    return lead, data, [Service(*join, *kept(directory, f"relay{i}")) for i in range(3)]


def main():
    seed = seed_of_test()
    with workplace() as directory:
        lead, data, relays = start_services(directory, seed)
        services = (lead, data, *relays)
        lead.node.wait_for("iteration", iteration=5)
        lead.node.stop()
        data.node.wait_for("leader")
        data.node.wait_for_iterations()
        while data.node.process.poll() is None:  # a relay may lead; then the data peer leaves it, and is the last one all the same
            data.node.process.send_signal(signal.SIGTERM)
            data.node.finish()
        stopped = data.node.events[-1]["iteration"]
        while not lead.node.of("iteration") or lead.starts == 1:
            for service in services:
                service.restart_if_ended()
                expect(service.starts <= MOST_STARTS, f"{service.line}: started {service.starts} times, and the run does not go on")
            time.sleep(0.05)
        print(f"stopped after {stopped} iterations; starts of each: {[service.starts for service in services]}")
        ended, weights = lead.node.end()
        alone = solo(write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=2, stages="[0, 2, 1]", name="solo.yaml"), ended)
        expect(weights == alone, f"{ended} iterations: weights {weights}, solo {alone}")
        for service in services:
            service.node.stop()


main()
