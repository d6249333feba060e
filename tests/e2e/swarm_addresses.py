"""Announced addresses: each one that others can use, loopback only with a warning. A joiner tries all addresses of a ticket."""

import hashlib
import os
import re
import socket
import subprocess
import tempfile

from loadlib import scaled
from swarmlib import PROGRAM, Braid, expect, write_run

LOCAL = "only processes on this machine can join at "


def ticket_with(ticket, address):
    """A ticket of the same leader with another address."""
    identity = ticket.split(".")[1]
    check = hashlib.sha256(bytes.fromhex(identity) + address.encode()).hexdigest()[:8]
    return f"braid1.{identity}.{check}@{address}"


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def leader_of(directory, *arguments, inside=()):
    leader = Braid("node", "--lead", "--run", write_run(directory, iterations=3, stages="[0, 3]", data_peers=1), *arguments, inside=inside)
    return leader, leader.wait_for("ready")


def expect_refused(arguments, text):
    run = subprocess.run([PROGRAM, "node", *arguments], capture_output=True, text=True, timeout=scaled(20), env={**os.environ, "BRAID_CONFIG": "/dev/null"})
    expect(run.returncode == 2 and text in run.stderr, f"{arguments}: {run.returncode}, {run.stderr}")


def all_addresses_of_a_ticket(directory):
    """A closed port, the port of another peer, then the leader's own, and by IPv6 where it exists."""
    other, elsewhere = leader_of(directory, "--listen", "127.0.0.1:0")
    leader, ready = leader_of(directory, "--listen", "[::]:0" if socket.has_ipv6 and has_ipv6_loopback() else "0.0.0.0:0")
    port = ready["address"].split(",")[0].rsplit(":", 1)[1]
    last = f"[::1]:{port}" if has_ipv6_loopback() else f"127.0.0.1:{port}"
    addresses = f"127.0.0.1:{closed_port()},{elsewhere['address']},{last}"
    relay = Braid("node", "--join", ticket_with(ready["ticket"], addresses))
    leader.weights()
    expect(relay.finish() == 0, "the relay did not end well")
    expect(not relay.of("note"), f"the relay complains: {relay.of('note')}")
    other.stop()


def has_ipv6_loopback():
    try:
        with socket.socket(socket.AF_INET6) as six:
            six.bind(("::1", 0))
        return True
    except OSError:
        return False


def loopback_is_said(directory):
    for listen in ("127.0.0.1:0", "localhost:0", "*:0 --public-address 127.0.0.1:4711"):
        leader, ready = leader_of(directory, "--listen", *listen.split())
        expect(any(LOCAL + ready["address"] in note["text"] for note in leader.of("note")), f"{listen}: {leader.events}")
        leader.stop()
    leader, ready = leader_of(directory, "--listen", "*:0", "--public-address", "198.51.100.7:0")
    expect(not leader.of("note"), f"a public address is complained of: {leader.of('note')}")
    leader.stop()


def link_local_is_refused(directory):
    run = write_run(directory)
    for flag in ("--listen", "--public-address"):
        expect_refused(["--lead", "--run", run, flag, "[fe80::1%eth0]:4711"], "%eth0 names an interface of one machine")
        expect_refused(["--lead", "--run", run, flag, "[fe80::1]:4711"], "a link-local address (fe80::)")
    expect_refused(["--join", ticket_with("braid1." + "a" * 64, "[fe80::1%eth0]:4711")], "its address is a link-local one")


def inside_a_network(*commands):
    """Returns a shell line that makes a network namespace and runs these commands in it."""
    return ("unshare", "--user", "--map-root-user", "--net", "sh", "-c", " && ".join((*commands, 'exec "$@"')), "sh")


def networks(directory):
    """Networks without a default route, with IPv6, with only a bridge of containers, with loopback alone."""
    lan = ("ip link set lo up", "ip link add name lan0 type veth peer name lan1", "ip link set lan1 up", "ip link set lan0 up", "ip address add 10.9.9.9/24 dev lan0")
    six = ("ip -6 address add 2001:db8:9::9/64 dev lan0 nodad", "ip link add name docker0 type veth peer name other0", "ip link set other0 up", "ip link set docker0 up",
           "ip address add 172.17.0.1/16 dev docker0")
    bridge = ("ip address flush dev lan0", "ip address add 169.254.7.7/16 dev lan0")
    if subprocess.run([*inside_a_network(*lan, *six, *bridge), "true"], capture_output=True).returncode != 0:
        print("no network namespaces here: addresses of interfaces are not tried")
        return
    for commands, listen, hosts in (
        (lan, "0.0.0.0:0", ["10.9.9.9"]),
        (lan + six, "*:0", ["10.9.9.9", "[2001:db8:9::9]"]),
        (lan + six, "0.0.0.0:0", ["10.9.9.9"]),
        (lan + six + bridge, "0.0.0.0:0", ["172.17.0.1"]),
        (("ip link set lo up",), "*:0", ["127.0.0.1"]),
    ):
        leader, ready = leader_of(directory, "--listen", listen, inside=inside_a_network(*commands))
        found = re.sub(r":\d+(,|$)", r"\1", ready["address"]).split(",")
        expect(found == hosts, f"{listen}: {found}, not {hosts}")
        warned = any(LOCAL in note["text"] for note in leader.of("note"))
        expect(warned == (hosts == ["127.0.0.1"]), f"{listen}: {leader.events}")
        leader.stop()


with tempfile.TemporaryDirectory() as folder:
    all_addresses_of_a_ticket(folder)
    loopback_is_said(folder)
    link_local_is_refused(folder)
    networks(folder)
print("all as expected")
