"""Shared by the end-to-end tests of swarms: a tiny run, and braid as a child process with its events."""

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from loadlib import Limit

ENDLESS = 100000  # iterations: the test ends such a run, on a fast and on a slow machine
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BRAID", "build/release/braid")
WORDS = (
    "the river splits and finds another way round what blocks it while small boats carry grain from one bank to the "
    "other and nobody on the water knows how many channels there are until the evening when all of them meet again "
    "under a stone bridge that has stood for longer than any of the houses beside it"
).split()


def seed_of_test():
    """Returns a random seed and prints it; BRAID_TEST_SEED repeats a failure."""
    seed = int(os.environ.get("BRAID_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: repeat with BRAID_TEST_SEED={seed} python3 {' '.join(sys.argv)}", flush=True)
    return seed


def write_text(path, seed, count=40000):
    rng = random.Random(seed)
    with open(path, "w", encoding="ascii") as file:
        for i in range(count):
            file.write(rng.choice(WORDS))
            file.write(".\n" if i % 11 == 10 else " ")


def write_run(directory, seed=1, iterations=50, checkpoint=False, stages="[0, 1, 1, 1]", data_peers=2, text_seed=5, name="run.yaml", sequences=2, microbatches=8, plan_first=False, **train):
    text = os.path.join(directory, f"text{text_seed}.txt")
    if not os.path.exists(text):
        write_text(text, text_seed)
    path = os.path.join(directory, name)
    lines = [
        f"seed: {seed}",
        f"stages: {stages}",
        "model: {dim: 32, layers: 3, heads: 2, context: 32}",
        f"data: {{text: {text}}}",
        f"train: {{iterations: {iterations}, microbatches: {microbatches}, sequences: {sequences}"
        + "".join(f", {key}: {value}" for key, value in train.items())
        + "}",
        "eval: {every: 20, microbatches: 2}",
        f"swarm: {{data_peers: {data_peers}, plan_first: {str(plan_first).lower()}}}",
    ]
    if checkpoint:
        lines.append(f"checkpoint: {{dir: {os.path.join(directory, 'checkpoint')}}}")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    return path


def make_texts_private(run, texts):
    """Gives each data peer of the run one of these texts for itself."""
    with open(run, encoding="ascii") as file:
        lines = file.read().splitlines()
    with open(run, "w", encoding="ascii") as file:
        for line in lines:
            file.write((f"data: {{text: [{', '.join(texts)}], private: {len(texts)}}}" if line.startswith("data:") else line) + "\n")


BOUND = ("setpriv", "--pdeathsig", "KILL")  # an endless run ends with the test in any case


class Braid:
    """A child process of braid with --json; a thread reads its events."""

    def __init__(self, *arguments, env=None, commands=False, inside=()):
        self.events = []
        self.changed = threading.Condition()
        self.ended = False
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BRAID_")}
        environment["BRAID_CONFIG"] = "/dev/null"
        environment.update(env or {})
        self.process = subprocess.Popen(
            [*BOUND, *inside, PROGRAM, *arguments, "--json"], stdin=subprocess.PIPE if commands else None, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment,
        )
        self.complaints = []
        self.threads = [threading.Thread(target=target, daemon=True) for target in (self._read_events, self._read_complaints)]
        for thread in self.threads:
            thread.start()

    def _read_events(self):
        for line in self.process.stdout:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _read_complaints(self):
        for line in self.process.stderr:
            self.complaints.append(line)

    def of(self, kind):
        return [event for event in self.events if event["event"] == kind]

    def _wait(self, condition, seconds):
        """Until the condition holds, the process has ended, or the limit is over."""
        limit = Limit(seconds)
        with self.changed:
            while not (condition() or self.ended) and limit.left() > 0:
                self.changed.wait_for(lambda: condition() or self.ended, limit.left())

    def wait_for(self, kind, seconds=60, **fields):
        """Waits for the first event of a kind with at least these fields, and returns it."""

        def fits(event):
            return event["event"] == kind and all(
                event[key] >= value if isinstance(value, (int, float)) else value in event[key] for key, value in fields.items()
            )

        def found():
            return next((event for event in self.events if fits(event)), None)

        self._wait(found, seconds)
        event = found()
        if not event:
            self.fail(f"no event {kind} {fields}")
        return event

    def wait_until(self, condition, what, seconds=240):
        """Waits for a condition that events make true. The run must be endless, since another one may end first."""
        self._wait(condition, seconds)
        if not condition():
            self.fail(f"{what} did not happen")

    def wait_for_killed(self, count):
        """Waits for all ordered deaths."""
        self.wait_until(lambda: len(self.of("killed")) >= count, f"{count} deaths")

    def wait_for_iterations(self, iterations=3):
        """Waits for this many more iterations; returns the newest."""
        told = len(self.of("iteration"))
        self.wait_until(lambda: len(self.of("iteration")) >= told + iterations, f"{iterations} more iterations")
        return self.of("iteration")[-1]["iteration"]

    def end(self):
        """Ends an endless run after some more iterations. Returns the number of complete iterations, and the weights."""
        self.wait_for_iterations()
        self.interrupt()
        weights = self.weights()
        return self.events[-1]["iteration"], weights

    def finish(self, seconds=240):
        limit, code = Limit(seconds), None
        while code is None:
            try:
                code = self.process.wait(max(limit.left(), 0.1))
            except subprocess.TimeoutExpired:
                if limit.left() == 0:
                    self.fail(f"still running after {seconds * limit.factor:.0f} s")
        for thread in self.threads:
            thread.join()
        return code

    def send_command(self, command):
        """Sends a command to a supervised node; a dead one ignores it."""
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.finish()

    def fail(self, why):
        tail = "\n".join(json.dumps(event) for event in self.events[-25:])
        self.process.kill()
        raise SystemExit(f"FAILED: {' '.join(self.process.args)}: {why}\n{tail}\n{''.join(self.complaints[-10:])}")

    def weights(self):
        """Runs to the end and returns the hash of the weights."""
        code = self.finish()
        end = self.events[-1] if self.events else {}
        if code != 0 or end.get("event") != "end" or end.get("failed") or len(end.get("weights") or "") != 64:
            self.fail(f"ended with {code}, {end}")
        return end["weights"]


def end_run(data):
    """Ends an endless run with these supervised data peers. Returns the number of complete iterations, and the weights."""
    while not any(peer.ended for peer in data):
        for peer in data:
            peer.send_command("end")
        with data[0].changed:
            data[0].changed.wait(0.2)  # the leader may change, so the command is repeated
    expect_clean_exits(data)
    ends = [event for peer in data for event in peer.of("end") if event["weights"]]
    expect(len(ends) == 1, f"not one of them ends with weights: {ends}")  # the leader at that time
    return ends[0]["iteration"], ends[0]["weights"]


def solo(run, iterations, *flags):
    """Returns the weights of one process after this many iterations of the run. Older checkpoints are set aside."""
    return Braid("train", "--solo", run, "--anew", "--iterations", str(iterations), *flags).weights()


def expect_clean_exits(peers):
    for peer in peers:
        code = peer.finish()
        if code != 0:
            peer.fail(f"ended with {code}")


def expect(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")


def expect_each_iteration_once(swarm, iterations):
    """Checks that iterations are reported in order, and that only a rollback repeats any."""
    done = 0
    for event in swarm.events:
        if event["event"] == "rolled_back":
            expect(event["iteration"] + event["total"] == done, f"{done} iterations were reported, but the rollback is by {event['total']} to {event['iteration']}")
            done = event["iteration"]
        elif event["event"] == "iteration":
            expect(event["iteration"] == done + 1, f"iteration {event['iteration']} was reported after {done}")
            done += 1
    expect(done == iterations, f"{done} of {iterations} iterations were reported")


def ticket(leader_id, address):
    """A ticket in the form of src/node/ticket.h."""
    check = hashlib.sha256(bytes.fromhex(leader_id) + address.encode()).hexdigest()[:8]
    return f"braid1.{leader_id}.{check}@{address}"


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def workplace():
    return tempfile.TemporaryDirectory(prefix="braid-e2e-")
