"""Peers in network namespaces, with a shaped link between any two of them (tc's token bucket). No privileges are needed. Tests
are skipped where the system refuses namespaces or shaping."""

import os
import statistics
import subprocess
import sys

from swarmlib import Braid, expect, write_text

SKIPPED = 77  # to ctest (CMakeLists.txt)
SHAPE = "burst 64kb latency 200ms"
TENSOR_MIB = 2  # the smallest size for bandwidth probes and relayed transfers
CONTEXT, DIM = 64, 32
PROBE = f"ip link add name left type veth peer name right && tc qdisc add dev left root tbf rate 10mbit {SHAPE} && unshare -n true"


def enter():
    """Restarts this program in a namespace of its own and returns there. Ends it with SKIPPED where that is impossible."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.environ.get("BRAID_TEST_INSIDE"):
        return
    probe = subprocess.run(["unshare", "-rn", "sh", "-c", PROBE], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        print(f"SKIPPED: no network namespaces with shaped lines here: {probe.stderr.strip()}")
        raise SystemExit(SKIPPED)
    os.environ["BRAID_TEST_INSIDE"] = "yes"
    sys.stdout.flush()
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])


def do(*command):
    subprocess.run(command, check=True)


def address(peer):
    return f"10.0.0.{peer + 1}"


class Lines:
    """`rate(a, b)`: Mb/s between two of the peers, each way."""

    def __init__(self, peers, rate):
        self.rate = rate
        # each ends when its standard input closes, that is with this program
        self.place = [subprocess.Popen(["unshare", "-n", "sh", "-c", "echo here; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(peers)]
        for place in self.place:
            place.stdout.readline()
        for peer in range(peers):
            do(*self.inside(peer), "ip", "link", "set", "lo", "up")
            do(*self.inside(peer), "ip", "address", "add", f"{address(peer)}/32", "dev", "lo")
        for b in range(peers):
            for a in range(b):
                self._lay(a, b)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for place in self.place:
            place.stdin.close()
            place.wait()

    def inside(self, peer):
        return ["nsenter", "-t", str(self.place[peer].pid), "-n"]

    def _lay(self, a, b):
        do("ip", "link", "add", "name", f"to{a}.{b}", "type", "veth", "peer", "name", f"to{b}.{a}")
        for here, there in ((a, b), (b, a)):
            do("ip", "link", "set", f"to{here}.{there}", "netns", str(self.place[here].pid))
            do(*self.inside(here), "ip", "link", "set", f"to{here}.{there}", "up")
        for here, there in ((a, b), (b, a)):
            device = f"to{here}.{there}"
            do(*self.inside(here), "ip", "route", "add", f"{address(there)}/32", "dev", device, "src", address(here))
            do(*self.inside(here), "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{self.rate(a, b)}mbit", *SHAPE.split())


def write_lines_run(directory, seed, iterations, microbatches, routing="braid"):
    """A run with three stages, tensors of TENSOR_MIB and little computation."""
    text = os.path.join(directory, "text.txt")
    if not os.path.exists(text):
        write_text(text, 5)
    path = os.path.join(directory, f"{routing}.yaml")
    sequences = (TENSOR_MIB << 20) // (4 * CONTEXT * DIM)
    with open(path, "w", encoding="ascii") as file:
        file.write(
            f"seed: {seed}\nstages: [0, 1, 1]\nmodel: {{dim: {DIM}, layers: 2, heads: 2, context: {CONTEXT}}}\ndata: {{text: {text}}}\n"
            f"train: {{iterations: {iterations}, microbatches: {microbatches}, sequences: {sequences}}}\n"
            f"eval: {{every: {iterations}, microbatches: 1}}\nswarm: {{data_peers: 1, capacity: 2, routing: {routing}}}\n"
        )
    return path


class Measured:
    """A run with peer 0 as the leader and the others as relays of `stages`, in order."""

    def __init__(self, lines, run, stages):
        self.lines, self.peers = lines, []
        try:
            self._run(run, stages)
        finally:
            for peer in self.peers:
                peer.stop()

    def _node(self, *arguments):
        peer = len(self.peers)
        self.peers.append(Braid("node", "--listen", f"{address(peer)}:4711", *arguments, inside=self.lines.inside(peer)))
        return self.peers[-1]

    def _run(self, run, stages):
        leader = self._node("--lead", "--run", run, "--voters", "1", "--wait-relays", str(len(stages)))
        ticket = leader.wait_for("ready")["ticket"]
        for count, stage in enumerate(stages, 1):
            relay = self._node("--join", ticket, "--no-whole")
            placed = relay.wait_for("joined", role="relay", peer=relay.wait_for("ready")["peer"])["stage"]
            expect(placed == stage, f"relay {count} is of stage {placed}, not {stage}")
        self.weights = leader.weights()
        expect(all(peer.finish() == 0 for peer in self.peers), "a relay failed")
        self.seconds = [event["tokens"] / event["tokens_per_second"] for event in leader.of("iteration")]
        self.ends = [peer.events[-1] for peer in self.peers]
        self.carried = sum(end["carried"] for end in self.ends)

    def median(self):
        """The median time of an iteration, without the first, in which link rates are unknown."""
        return statistics.median(self.seconds[1:])
