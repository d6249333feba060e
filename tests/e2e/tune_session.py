#!/usr/bin/env python3
"""braid tune --session: two clients train different adapters on one serving swarm while texts are generated; peers are
killed meanwhile. Each adapter has the bytes of braid tune alone, and no peer holds it after an iteration."""
import filecmp
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.request

from servinglib import *

TEXT = "the river bends round every stone that lies in its way"


class Peer(Process):
    """A peer with layers; `lent` is the number of adapters that it reported last."""

    def __init__(self, ticket, layers):
        super().__init__("node", "--json", "--join", ticket, "--model", "model", "--listen", "127.0.0.1:0", "--threads", "1",
                         "--layers", layers)
        self.wait('"event":"serving"')
        self.lent, self.most, self.bytes = 0, 0, 0

    def look(self):
        while not self.lines.empty():
            line = self.lines.get()
            event = json.loads(line) if line and line.startswith("{") else {}
            if event.get("event") == "lends":
                self.lent, self.bytes = event["adapters"], event["bytes"]
                self.most = max(self.most, self.lent)
        return self.lent


def prepare():
    shutil.rmtree("work", ignore_errors=True)
    os.mkdir("work")
    os.chdir("work")
    with open("words.txt", "w", encoding="utf-8") as f:
        f.write((TEXT + "\n") * 400)
    make_model("saved", 7, 128)
    os.rename("saved.gguf", "model")
    for name, word in (("one", "stone"), ("two", "river")):
        with open(f"{name}.jsonl", "w", encoding="utf-8") as f:
            for i in range(40):
                f.write(json.dumps({"prompt": f"{word} {i % 7}", "completion": " " + TEXT[i % 20:]}) + "\n")


def command(name, out, *more):
    return ["tune", "model", "--data", f"{name}.jsonl", "--out", out, "--iterations", "40", "--batch", batch_of(name), "--rank", "8",
            "--sequence", "96", "--learning-rate", "0.02", "--validate-every", "4", "--save-every", "1", "--threads", "1",
            "--json", *more]


def batch_of(name):
    """The second client has two microbatches in an iteration."""
    return "24" if name == "two" else "4"


def same(name, out):
    for file in ("adapter_model.safetensors", "adapter_config.json"):
        if not os.path.exists(f"{out}/{file}") or not filecmp.cmp(f"alone-{name}/{file}", f"{out}/{file}", shallow=False):
            fail(f"{out}/{file} differs from that of one process")


# --- the memory of peers

def tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    return {name: raw[8 + size + value["data_offsets"][0]:8 + size + value["data_offsets"][1]]
            for name, value in json.loads(raw[8:8 + size]).items() if name != "__metadata__"}


def needles(state):
    """Pieces of 64 bytes of the parameters that the last iteration had: the adapter before its last step."""
    pieces = {}
    for name, raw in tensors(state).items():
        for at in range(0, len(raw) - 64, 64):
            piece = raw[at:at + 64]
            if len(set(piece)) > 16:
                pieces[piece] = f"{name}+{at}"
    return pieces


def found_in(process, pieces):
    """Which pieces the memory of a process has, at any multiple of 4 bytes."""
    found, sought = [], {piece[:16]: piece for piece in pieces}
    with open(f"/proc/{process}/maps", encoding="ascii") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            at, flags = line.split()[:2]
            begin, end = (int(number, 16) for number in at.split("-"))
            if "w" not in flags or "[v" in line:
                continue
            try:
                memory.seek(begin)
                block = memory.read(end - begin)
            except OSError:
                continue
            for place in range(0, len(block) - 64, 4):
                piece = sought.get(block[place:place + 16])
                if piece and block[place:place + 64] == piece:
                    found.append(f"{pieces[piece]} at {begin + place:x} of {line.split()[-1]}")
    return found


def wait_forgotten(peers):
    limit = time.monotonic() + PATIENCE
    while any(peer.look() for peer in peers) and time.monotonic() < limit:
        time.sleep(0.02)
    for peer in peers:
        if peer.look() or peer.bytes:
            fail(f"a peer holds {peer.lent} adapters of {peer.bytes} bytes")


def holds_nothing(peers, pieces):
    wait_forgotten(peers)
    for peer in peers:
        found = found_in(peer.process.pid, pieces)
        if found:
            fail(f"{len(found)} pieces of the adapter are in the memory of a peer: {found[:8]}")


def test_memory(ticket, peers):
    """The last thing that a client does is a held-out loss, with the parameters that it saves. After it, and after
    a client that was killed, no peer has them."""
    done = Process(*command("one", "kept", "--session", ticket))
    if done.rest() != 0:
        fail(f"a client alone on the swarm: {done.seen}")
    same("one", "kept")
    if max(peer.look() or peer.most for peer in peers) < 1:
        fail("no peer reported an adapter")
    pieces = needles("kept/tune-state.safetensors")
    if len(pieces) < 100 or not set(needles("kept/adapter_model.safetensors")) & set(pieces):
        fail(f"only {len(pieces)} pieces to look for")
    holds_nothing(peers, pieces)
    client = Process(*command("one", "killed", "--session", ticket))
    client.wait('"iteration":6')
    client.end(signal.SIGKILL)
    holds_nothing(peers, needles("killed/tune-state.safetensors"))
    done = Process(*command("one", "killed", "--session", ticket, "--resume"))
    if done.rest() != 0:
        fail(f"the client goes on: {done.seen}")
    same("one", "killed")


def chat(url, texts, stop):
    """The third user: texts must be those of braid generate all the time."""
    body = {"model": "model", "prompt": "the ", "max_tokens": 20, "temperature": 0}
    while not stop.is_set():
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            texts.append(json.load(answer)["choices"][0]["text"])


def test_clients(url, ticket, peers):
    peers[2].end()  # until both others with the first layers are killed
    texts, stop = [], threading.Event()
    third = threading.Thread(target=chat, args=(url, texts, stop))
    third.start()
    clients = {name: Process(*command(name, f"with-{name}", "--session", ticket)) for name in ("one", "two")}
    clients["one"].wait('"iteration":3')
    peers[0].end(signal.SIGKILL)
    clients["two"].wait('"iteration":6')
    peers[1].end(signal.SIGKILL)
    peers[2] = Peer(ticket, "0:1")
    for name, client in clients.items():
        if client.rest() != 0:
            fail(f"client {name}: {client.seen}")
        same(name, f"with-{name}")
    stop.set()
    third.join()
    if len(set(texts)) != 1:
        fail(f"the texts differ: {set(texts)}")
    if not any("is replaced" in line for client in clients.values() for line in client.seen):
        fail("no client replaced a peer")
    wait_forgotten(peers[2:])


def test_relays():
    """Child processes compute the layers; one is killed, and started again."""
    client = Process(*command("two", "relayed", "--relays", "2"))
    victim = int(client.wait("peer 2 serves layers 1 to 2, process ([0-9]+)").group(1))
    client.wait('"iteration":2')
    os.kill(victim, signal.SIGKILL)
    if client.rest() != 0:
        fail(f"tune with relays: {client.seen}")
    same("two", "relayed")
    refused("give one of them", *command("one", "bad", "--relays", "2", "--session", "serve1.x"))


def refused(text, *arguments, code=2):
    done = subprocess.run([BRAID, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    if done.returncode != code or text not in done.stderr or len(done.stderr.strip().splitlines()) != 1:
        fail(f"{arguments[-4:]}: expected '{text}', got {done.returncode} and {done.stderr}")


def main():
    prepare()
    for name in ("one", "two"):
        subprocess.run([BRAID, *command(name, f"alone-{name}")], check=True, stdout=subprocess.DEVNULL)
    server = Process("serve", "model", "--port", "0", "--threads", "1", "--peers", "0", "--listen", "127.0.0.1:0")
    url = server.wait(r"(http://\S+)").group(1)
    ticket = server.wait(r"--join (serve1\.\S+)").group(1)
    peers = [Peer(ticket, layers) for layers in ("0:2", "0:2", "0:1", "1:3")]
    test_memory(ticket, peers)
    refused("is of a training run", *command("one", "bad", "--session", ticket.replace("serve1.", "braid1.")))
    test_clients(url, ticket, peers)
    test_relays()
    for process in (*peers[2:], server):
        process.end()
    finish()


main()
