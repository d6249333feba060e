#!/usr/bin/env python3
"""One command line with --continue serves the first start and every restart, as a service manager needs it: of `train`, of `up`,
and of nodes that lead and join. A restart goes on from the newest checkpoint; a complete run says so and ends with code 0."""

import os
import shutil
import signal

from swarmlib import Braid, expect, free_ports, seed_of_test, solo, ticket, workplace, write_run

ITERATIONS = 80


def run_of(directory, seed, name, every=0, iterations=ITERATIONS, **fields):
    run = write_run(directory, seed=seed, iterations=iterations, warmup=2, name=f"{name}.yaml", stages="[0, 2, 1]", **fields)
    with open(run, "a", encoding="ascii") as file:
        file.write(f"checkpoint: {{dir: {os.path.join(directory, name)}, every: {every}}}\n")
    return run


def terminate(braid, iteration):
    """Stops it in order, once it has done these many iterations. Returns how many are saved."""
    braid.wait_for("iteration", iteration=iteration)
    braid.process.send_signal(signal.SIGTERM)
    code = braid.finish(60)
    end = braid.events[-1]
    expect(code == 0 and end["event"] == "end" and not end.get("failed"), f"stopped with {code}: {end}")
    return end["iteration"]


def expect_begins_after(braid, done):
    first = braid.wait_for("iteration")["iteration"]
    expect(first == done + 1, f"{braid.process.args} began with iteration {first}, and {done} were saved")


def expect_nothing_to_do(braid, weights=None):
    code = braid.finish(60)
    notes = [note["text"] for note in braid.of("note") if "nothing to do" in note["text"]]
    expect(code == 0 and notes, f"{braid.process.args} ended with {code} and says {braid.of('note')}, {braid.complaints}")
    expect(weights in (None, braid.events[-1]["weights"]), f"a complete run has the weights {braid.events[-1]}")


def alone_or_up(run, expected, *line):
    """First start, a restart, and a restart of the complete run, by the same line."""
    done = terminate(Braid(*line), 3)
    again = Braid(*line)
    expect_begins_after(again, done)
    weights = again.weights()
    expect(weights == expected, f"{line}: {weights} is not {expected}")
    expect_nothing_to_do(Braid(*line), weights)


def refused(directory, seed):
    bare = write_run(directory, seed=seed, iterations=5, name="bare.yaml")
    kept = run_of(directory, seed, "kept")
    for words, *line in (
        ("needs a directory", "train", "--solo", bare, "--continue"),
        ("needs a directory", "up", bare, "--continue"),
        ("needs a directory", "node", "--lead", "--run", bare, "--continue"),
        ("give one of them", "train", "--solo", kept, "--continue", "--anew"),
        ("give one of them", "up", kept, "--continue", "--anew"),
        ("give one of them", "node", "--lead", "--run", kept, "--continue", "--anew"),
        ("leave it out", "node", "--join", ticket("00" * 32, "127.0.0.1:9"), "--continue"),
    ):
        braid = Braid(*line)
        code = braid.finish(20)
        expect(code == 2 and words in "".join(braid.complaints), f"{line} ended with {code}: {braid.complaints}")


def from_a_base(directory, seed):
    """--resume is for the first start alone."""
    base = run_of(directory, seed, "base", iterations=4)
    Braid("train", "--solo", base).weights()
    tuned = run_of(directory, seed, "tuned", iterations=2000)
    line = ("train", "--solo", tuned, "--continue", "--resume", os.path.join(directory, "base"))
    first = Braid(*line)
    expect_begins_after(first, 4)
    done = terminate(first, 6)
    again = Braid(*line)
    expect_begins_after(again, done)
    again.stop()


class Services:
    """A leader, another data peer and two relays, each with a line of its own that does not change."""

    def __init__(self, directory, seed, name, voters, iterations):
        self.log = os.path.join(directory, f"{name}.log")
        address = f"127.0.0.1:{free_ports(1)[0]}"
        run = run_of(directory, seed, name, every=20, iterations=iterations)
        self.lead_line = ("node", "--lead", "--continue", "--run", run, "--log", self.log, "--voters", str(voters), "--listen", address, "--wait-data-peers", "2", "--wait-relays", "2")
        self.run, self.lead = run, Braid(*self.lead_line)
        self.ticket = self.lead.wait_for("ready")["ticket"]
        other = run_of(directory, seed, f"{name}-data", every=20, iterations=iterations)
        self.data_line = ("node", "--data", "--join", self.ticket, "--continue", "--run", other, "--log", other + ".log", "--listen", "127.0.0.1:0", "--patience", "0")
        self.join()

    def join(self):
        relays = [("node", "--join", self.ticket, "--listen", "127.0.0.1:0", "--patience", "0", "--log", f"{self.log}.relay{i}") for i in range(2)]
        self.peers = [Braid(*line) for line in (self.data_line, *relays)]

    def restart(self):
        self.lead = Braid(*self.lead_line)
        self.join()

    def stop(self, iteration):
        done = terminate(self.lead, iteration)
        self.end_peers()
        return done

    def end_peers(self):
        for peer in self.peers:
            code = peer.finish(60)
            expect(code == 0, f"{peer.process.args} ended with {code}: {peer.complaints}")


def a_log_that_lacks_its_end(directory, seed):
    """As after a full disk: the log lacks its end, and a checkpoint was saved after it. Peers that still wait for the leader of
    before notice that it has begun anew, and end, so that their service managers start them again."""
    services = Services(directory, seed, "led", 1, 4000)
    services.lead.wait_for("checkpoint", iteration=20)
    short = services.log + ".short"
    shutil.copy(services.log, short)
    services.lead.wait_for("checkpoint", iteration=40)
    services.lead.stop()
    done = services.lead.of("checkpoint")[-1]["iteration"]
    os.replace(short, services.log)
    services.lead = Braid(*services.lead_line)
    for peer in services.peers:
        code = peer.finish(20)
        expect(code == 1 and "has started a new one" in "".join(peer.complaints), f"{peer.process.args} ended with {code}: {peer.complaints}")
    services.join()
    expect_begins_after(services.lead, done)
    services.stop(done + 1)


def a_peer_without_a_leader(directory, seed):
    """It has its log and no state, so it need not wait for a leader when it is stopped."""
    services = Services(directory, seed, "unled", 3, 4000)
    services.lead.wait_for("iteration", iteration=2)
    for peer in (*services.peers, services.lead):
        peer.stop()
    unled = Braid(*services.data_line)
    unled.wait_for("note", text="continuing from the log")
    unled.process.send_signal(signal.SIGTERM)
    code = unled.finish(10)
    expect(code == 0, f"a data peer without a leader ended with {code}: {unled.complaints}")


def nodes(directory, seed, expected):
    services = Services(directory, seed, "voted", 5, ITERATIONS)
    done = services.stop(3)
    services.restart()
    expect_begins_after(services.lead, done)
    weights = services.lead.weights()
    services.end_peers()
    expect(weights == expected, f"{weights} is not {expected}")
    expect_nothing_to_do(Braid(*services.lead_line), weights)
    expect_nothing_to_do(Braid(*services.data_line))


def main():
    seed = seed_of_test()
    with workplace() as directory:
        refused(directory, seed)
        from_a_base(directory, seed)
        expected = solo(run_of(directory, seed, "whole"), ITERATIONS)
        alone_or_up(directory, expected, "train", "--solo", run_of(directory, seed, "train"), "--continue")
        alone_or_up(directory, expected, "up", run_of(directory, seed, "up"), "--relays", "2", "--continue")
        nodes(directory, seed, expected)
        a_log_that_lacks_its_end(directory, seed)
        a_peer_without_a_leader(directory, seed)


if __name__ == "__main__":
    main()
