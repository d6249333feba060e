#!/usr/bin/env python3
"""Peers that cannot take part end with the reason and do not disturb the run: a malformed ticket, a port in use, a closed
address, another leader id, a data peer with other text, a checkpoint of another model."""

import os
import random
import re
import shutil
import socket

from swarmlib import Braid, expect, free_ports, ticket, workplace, write_run


def expect_refused(arguments, words, codes=(1, 2)):
    peer = Braid(*arguments)
    code = peer.finish(60)
    said = "".join(peer.complaints)
    expect(code in codes, f"{arguments}: ended with {code}: {said}")
    expect(re.search(words, said), f"{arguments}: does not say '{words}': {said}")


def refuse_words(run):
    expect_refused(["node", "--join", "nonsense"], "ticket is malformed", [2])
    expect_refused(["node", "--join", "nonsense"], "braid1.* or .*serve1.", [2])
    expect_refused(["node", "--join", "braid1.00"], "too short", [2])
    expect_refused(["node"], "--join TICKET is missing", [2])
    expect_refused(["node", "--lead"], "--run RUN.yaml is missing", [2])
    expect_refused(["up", run, "--relays", "1"], "--relays 3 or more", [2])
    expect_refused(["up", run, "--whole", "2", "--kill", "relay1@iteration:2"], "has no relays; start some with --relays", [2])
    expect_refused(["up", run, "--relays", "3", "--kill", "everybody"], "relay3@iteration:12", [2])
    expect_refused(["node", "--lead", "--run", run, "--max-memory", "1K"], "needs .* allows", [1, 2])


def open_foreign_connections(address, count=120):
    """Opens connections of other programs: random bytes, HTTP, a cut TLS greeting. Returns silent ones."""
    host, port = address.rsplit(":", 1)
    chance = random.Random(1)
    hello = bytes.fromhex("16030100c8010000c40303")
    words = [chance.randbytes(2000), b"GET / HTTP/1.1\r\n\r\n", hello, hello + chance.randbytes(5000), b""]
    for i in range(count):
        with socket.create_connection((host, int(port)), 20) as visitor:
            visitor.sendall(words[i % len(words)])
    return [socket.create_connection((host, int(port)), 20) for _ in range(count)]


def main():
    with workplace() as directory:
        run = write_run(directory)
        other = write_run(directory, text_seed=6, name="other.yaml")
        refuse_words(run)

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            expect_refused(["node", "--lead", "--run", run, "--listen", address], "is taken")

        address = f"127.0.0.1:{free_ports(1)[0]}"
        expect_refused(["node", "--join", ticket("ab" * 32, address), "--patience", "1s"], "cannot reach the leader at " + address)

        leader = Braid("node", "--lead", "--run", run, "--listen", "127.0.0.1:0")
        ready = leader.wait_for("ready")
        address = ready["address"]
        expect_refused(["node", "--join", ticket("ab" * 32, address), "--patience", "1s"], "cannot reach the leader.*(certificate|identity|id)")
        expect_refused(["node", "--data", "--run", other, "--join", ready["ticket"], "--listen", "127.0.0.1:0"], "trains another run")
        expect_refused(["node", "--join", ready["ticket"], "--listen", "127.0.0.1:0", "--max-memory", "1K"], "needs .* allows")
        expect(leader.process.poll() is None, "the leader did not survive its visitors")

        silent = open_foreign_connections(address)
        key = os.path.join(directory, "twin.key")
        twin = Braid("node", "--join", ready["ticket"], "--listen", "127.0.0.1:0", "--identity", key)
        twin.wait_for("joined")
        expect_refused(["node", "--join", ready["ticket"], "--listen", "127.0.0.1:0", "--identity", key], "twin.key is in use by another process")
        told = [event["text"] for event in leader.of("note") if "refused " in event["text"]]
        expect(5 < len(told) <= 12 and "further refusals are only counted" in " ".join(told), f"{len(told)} lines about visitors: {told[:3]}")
        for visitor in silent:
            visitor.close()

        elsewhere = shutil.copy(key, os.path.join(directory, "copy.key"))  # like a copy on another machine
        expect_refused(["node", "--join", ready["ticket"], "--listen", "127.0.0.1:0", "--identity", elsewhere, "--patience", "1s"],
                       "has not answered for 1 s: .* another process with this peer's key is linked here and alive.*every peer needs a key of its own")
        expect(not leader.of("expelled"), "a second process of one key disturbed the first")
        twin.stop()

        # longer than a busy machine may pause a process before the link is up
        relay = Braid("node", "--join", ready["ticket"], "--listen", "127.0.0.1:0", "--patience", "6s")
        relay.wait_for("joined")
        leader.stop()
        code = relay.finish(60)
        expect(code == 1 and "has not answered" in "".join(relay.complaints), f"without a leader a relay ends with {code}: {relay.complaints}")


main()
