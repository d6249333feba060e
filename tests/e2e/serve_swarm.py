#!/usr/bin/env python3
"""braid serve --peers: texts over child processes and joiners are those of braid generate, whichever peers are killed
or drained meanwhile; unsuited joiners and missing layers are named."""
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

BRAID = os.environ["BRAID"]
PATIENCE = 120  # seconds for anything to come; only a hang takes so long
TOKENS = 60
RUN = """name: small
seed: 7
stages: [0, 3]
model: {arch: llama, dim: 64, layers: 3, heads: 4, context: 128}
data: {text: words.txt, holdout: 0.1}
train: {iterations: 3, microbatches: 2, sequences: 2}
"""
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text, flush=True)


def check(name, condition, seen=""):
    if not condition:
        fail(f"{name} {seen}")


class Process:
    """A process; its lines of output can be waited for."""

    def __init__(self, *arguments):
        self.lines, self.seen = queue.Queue(), []
        self.process = subprocess.Popen([BRAID, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        stdin=subprocess.DEVNULL)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def wait(self, pattern):
        """The first match in a line that was not looked at before."""
        while True:
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise SystemExit(f"FAILED: no line with '{pattern}' in {self.seen}")
            self.seen.append(line)
            found = re.search(pattern, line)
            if found:
                return found

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)


def prepare():
    shutil.rmtree("models", ignore_errors=True)  # of an earlier run
    os.mkdir("models")
    os.chdir("models")
    with open("words.txt", "w") as f:
        f.write("the river bends round every stone that lies in its way\n" * 400)
    for name, seed, context in ("saved", 7, 128), ("other", 8, 128), ("long", 9, 512):
        with open(f"{name}.yaml", "w") as f:
            f.write(RUN.replace("seed: 7", f"seed: {seed}").replace("context: 128", f"context: {context}"))
        subprocess.run([BRAID, "train", "--solo", f"{name}.yaml", "--save", name, "--threads", "1"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([BRAID, "convert", name, f"{name}.gguf", "--to", "f32"], check=True, stdout=subprocess.DEVNULL)


def generate(prompt, seed):
    return subprocess.run([BRAID, "generate", "saved.gguf", "--prompt", prompt, "--tokens", str(TOKENS), "--seed", str(seed),
                           "--threads", "1", "--ignore-end"], check=True, capture_output=True).stdout[len(prompt):]


class Server:
    def __init__(self, *flags, model="saved.gguf"):
        self.api = Process("serve", model, "--port", "0", "--threads", "1", *flags)
        self.url = self.api.wait(r"(http://\S+)").group(1)
        self.ticket = self.api.wait(r"--join (serve1\.\S+)").group(1)
        self.process = {}

    def wait_peers(self, numbers):
        missing = set(numbers)
        while missing:
            found = self.api.wait(r"peer (\d+) serves layers (\d+) to (\d+), process (\d+)")
            self.process[int(found.group(1))] = int(found.group(4))
            missing.discard(int(found.group(1)))

    def open(self, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def json(self, path):
        with self.open(path) as answer:
            return json.load(answer)

    def stream(self, prompt, seed, at=None, leave=None):
        """The text of a request; `at`: event -> a call after so many; `leave`: the client is gone after so many."""
        body = {"model": "m", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0.8, "top_p": 1, "seed": seed,
                "stream": True, "ignore_eos": True}
        body["model"] = self.json("/v1/models")["data"][0]["id"]
        text, events = b"", 0
        with self.open("/v1/completions", body) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                events += 1
                choices = json.loads(line[6:])["choices"]
                text += choices[0]["text"].encode() if choices else b""
                if at and events in at:
                    at[events]()
                if events == leave:
                    break
        return text

    def kill(self, *numbers):
        for number in numbers:
            os.kill(self.process[number], signal.SIGKILL)


def decoded(expected):
    """As the API writes bytes that are no text."""
    return expected.decode("utf-8", "replace").encode()


def same(server, name, seed, at=None):
    expected, text = decoded(generate("the ", seed)), server.stream("the ", seed, at)
    check(name, text == expected, f"{text} is not {expected}")


def status_of(call):
    try:
        call()
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def wait_gone(processes):
    limit = time.monotonic() + PATIENCE
    while any(os.path.exists(f"/proc/{process}") for process in processes) and time.monotonic() < limit:
        time.sleep(0.05)
    check("children end", not any(os.path.exists(f"/proc/{process}") for process in processes))


def wait_ready(server):
    while not state(server)["ready"]:
        time.sleep(0.05)


def wait_free(server):
    limit, seen = time.monotonic() + PATIENCE, state(server)
    while (seen["sessions"] or seen["free_tokens"] < seen["cache_tokens"]) and time.monotonic() < limit:
        time.sleep(0.05)
        seen = state(server)
    check("all room is free again", seen["sessions"] == 0 and seen["free_tokens"] == seen["cache_tokens"], seen)


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


def test_full_caches():
    """More texts at once than the peers' keys and values have room for: all are written, and all room is free afterwards."""
    texts = 8
    server = Server("--peers", "3", "--max-memory", "1200K", "--parallel", str(texts), "--draft", "off")
    server.wait_peers({1, 2, 3})
    wait_ready(server)
    room = state(server)["cache_tokens"]
    check("less room than the texts need", 0 < room < texts * TOKENS, room)
    writers = [threading.Thread(target=same, args=(server, f"text {seed} of many", seed)) for seed in range(20, 20 + texts)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    wait_free(server)
    check("an orderly end", server.api.end() == 0)


def test_too_long_for_the_peers():
    """Peers without room for the model's whole context: longer prompts are refused, and a text ends where the room does."""
    server = Server("--peers", "3", "--max-memory", "1200K", "--draft", "off", model="long.gguf")
    server.wait_peers({1, 2, 3})
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


def state(server):
    swarm = server.json("/v1/swarm")
    return swarm.get("swarm") or swarm


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
    refused(server.ticket, 2, "give the same model's file with --model FILE")
    refused(server.ticket, 2, "--layers 5: give FIRST:END", "--model", "saved.gguf", "--layers", "5")
    training = server.ticket.replace("serve1.", "braid1.")
    refused(training, 2, "--model and --layers are for the ticket of a swarm that serves", "--model", "saved.gguf")
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
    test_children()
    test_drafts()
    test_clients()
    test_full_caches()
    test_too_long_for_the_peers()
    test_joiners()
    sys.exit(f"{failures} of them failed" if failures else 0)


main()
