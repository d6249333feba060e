#!/usr/bin/env python3
"""braid serve --peers: texts over child processes and joiners are those of braid generate, whichever peers are killed
or drained meanwhile; unsuited joiners and missing layers are named."""
import json
import signal
import subprocess
import time
import urllib.error

from servinglib import *


def test_clients():
    """Clients that leave, and prompts that are too long, leave nothing behind."""
    server = Server("--peers", "3", "--copies", "1")
    server.wait_peers({1, 2, 3})
    same(server, "before", 7)
    server.stream("the ", 8, leave=3)
    check("a prompt beyond the context", status_of(lambda: server.stream("x" * 500, 9)) == 400)
    wait_free(server)
    same(server, "after", 9)
    server.api.end(signal.SIGKILL)
    wait_gone(server.process.values())


def test_too_long_for_the_peers():
    """Peers without room for the model's whole context: longer prompts are refused, and a text ends where the room does."""
    server = Server("--peers", "0", "--listen", "127.0.0.1:0", "--draft", "off", model="long.gguf")
    join = "node", "--join", server.ticket, "--model", "long.gguf", "--listen", "127.0.0.1:0", "--max-memory", "1900K"
    nodes = [Process(*join, "--layers", layers) for layers in ("0:2", "2:3")]
    wait_ready(server)
    room = state(server)["cache_tokens"]
    check("less room than the context", 256 <= room < 500, room)
    check("a prompt beyond the room", status_of(lambda: server.stream("x" * 500, 1)) == 400)
    text = {"model": server.json("/v1/models")["data"][0]["id"], "prompt": "the ", "max_tokens": 500, "ignore_eos": True}
    with server.open("/v1/completions", text) as answer:
        seen = json.load(answer)
    check("a text ends where the room does", room <= seen["usage"]["total_tokens"] <= room + 1, (room, seen["usage"]))
    check("the reason of the end", seen["choices"][0]["finish_reason"] == "length", seen["choices"][0]["finish_reason"])
    wait_free(server)
    for node in nodes:
        node.end()
    check("an orderly end", server.api.end() == 0)


def test_drafts():
    """Drafts change no text, also if spans die; each kind of drafts, and layers at the API node."""
    for flags in ("--draft", "off"), ("--draft", "saved.gguf", "--own-layers", "1"):
        server = Server("--peers", "2", *flags)
        server.wait_peers({1, 2})
        same(server, f"{flags}", 10)
        same(server, f"{flags}, a peer killed", 11, {5: lambda: server.kill(2)})
        check("an orderly end", server.api.end() == 0)
    for flags, code, text in ((("--draft", "none.gguf"), 1, "cannot open 'none.gguf'"),
                              (("--own-layers", "1"), 2, "give --peers, too"),
                              (("--peers", "1", "--own-layers", "3"), 2, "leave none for peers")):
        done = subprocess.run([BRAID, "serve", "saved.gguf", "--port", "0", *flags], capture_output=True, text=True,
                              timeout=PATIENCE)
        check("unsuited flags", done.returncode == code and text in done.stderr, (flags, done.returncode, done.stderr))


def test_children():
    server = Server("--peers", "3")
    server.wait_peers({1, 2, 3})
    same(server, "three peers", 1)
    same(server, "the middle one killed", 2, {5: lambda: server.kill(2)})
    server.wait_peers({2})
    same(server, "first and last killed", 3, {4: lambda: server.kill(1, 3)})
    server.wait_peers({1, 3})
    swarm = state(server)
    check("the state of the swarm", swarm["layers"] == 3 and len(swarm["peers"]) >= 4 and swarm["repairs"] >= 1, swarm)
    children = list(server.process.values())
    check("an orderly end", server.api.end() == 0)
    wait_gone(children)


def refused(ticket, code, text, *flags):
    done = subprocess.run([BRAID, "node", "--join", ticket, "--listen", "127.0.0.1:0", *flags], capture_output=True,
                          text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    lines = done.stderr.strip().splitlines()
    check("a refused joiner", done.returncode == code and len(lines) == 1 and text in lines[0], (done.returncode, lines))


def joiner(server, *flags):
    node = Process("node", "--join", server.ticket, "--model", "saved.gguf", "--listen", "127.0.0.1:0", *flags)
    node.wait("serving layers")
    return node


def unready(server):
    while state(server).get("since_s", 0) < 7:
        time.sleep(0.2)
    try:
        server.stream("the ", 1)
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        return error.code == 503 and "layers 0 to 2 are on no peer" in text
    return False


def test_joiners():
    server = Server("--peers", "0", "--listen", "127.0.0.1:0")
    check("no layers", unready(server))
    refused(server.ticket, 2, "give its file with --model FILE", "--adapter", "any=saved")
    refused(server.ticket, 2, "--layers 5: give FIRST:END", "--model", "saved.gguf", "--layers", "5")
    training = server.ticket.replace("serve1.", "braid1.")
    refused(training, 2, "--model, --layers and --adapter are for the ticket of a swarm that serves", "--model", "saved.gguf")
    refused(training, 2, "that peer serves a model and trains none")
    refused(server.ticket, 1, "is not the model that the swarm serves, 'saved': its layer 0", "--model", "other.gguf")
    refused(server.ticket, 1, "one layer of this model needs", "--model", "saved.gguf", "--max-memory", "1K")
    first = joiner(server)
    while not state(server)["ready"]:
        time.sleep(0.1)
    same(server, "one joiner", 4)
    second = joiner(server, "--layers", "0:2")
    third = joiner(server, "--layers", "1:3")
    ends = {}
    same(server, "a joiner drained", 5, {6: lambda: first.process.send_signal(signal.SIGTERM)})
    ends["first"] = first.process.wait(timeout=PATIENCE)
    same(server, "two that overlap", 6)
    check("drained in order", ends["first"] == 0, ends)
    check("the end of the API node", server.api.end() == 0)
    check("the end of joiners", [second.end(), third.end()] == [0, 0])


def main():
    prepare()
    make_model("long", 9, 512)
    test_children()
    test_drafts()
    test_clients()
    test_too_long_for_the_peers()
    test_joiners()
    finish()


main()
