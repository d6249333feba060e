"""A service over peers from outside, for the tests of braid serve --peers."""
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
model: {arch: llama, dim: 64, layers: 3, heads: 4, context: CONTEXT}
data: {text: words.txt, holdout: 0.1}
train: {iterations: 3, microbatches: 2, sequences: 2}
"""
failures = []


def fail(text):
    failures.append(text)
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

    def rest(self):
        """Reads to the end; returns the exit status."""
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            self.seen.append(line)
        return self.process.wait(timeout=PATIENCE)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)


def make_model(name, seed, context):
    with open(f"{name}.yaml", "w") as f:
        f.write(RUN.replace("seed: 7", f"seed: {seed}").replace("CONTEXT", str(context)))
    subprocess.run([BRAID, "train", "--solo", f"{name}.yaml", "--save", name, "--threads", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([BRAID, "convert", name, f"{name}.gguf", "--to", "f32"], check=True, stdout=subprocess.DEVNULL)


def prepare(context=128):
    shutil.rmtree("models", ignore_errors=True)  # of an earlier run
    os.mkdir("models")
    os.chdir("models")
    with open("words.txt", "w") as f:
        f.write("the river bends round every stone that lies in its way\n" * 400)
    for name, seed in ("saved", 7), ("other", 8):
        make_model(name, seed, context)


def generate(prompt, seed, *flags):
    return subprocess.run([BRAID, "generate", "saved.gguf", "--prompt", prompt, "--tokens", str(TOKENS), "--seed", str(seed),
                           "--threads", "1", "--ignore-end", *flags], check=True,
                          capture_output=True).stdout[len(prompt):]


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

    def stream(self, prompt, seed, at=None, leave=None, model=None):
        """The text of a request; `at`: event -> a call after so many; `leave`: the client is gone after so many."""
        body = {"model": "m", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0.8, "top_p": 1, "seed": seed,
                "stream": True, "ignore_eos": True}
        body["model"] = model or self.json("/v1/models")["data"][0]["id"]
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


def state(server):
    swarm = server.json("/v1/swarm")
    return swarm.get("swarm") or swarm


def wait_ready(server):
    while not state(server)["ready"]:
        time.sleep(0.05)


def wait_free(server):
    limit, seen = time.monotonic() + PATIENCE, state(server)
    while (seen["sessions"] or seen["free_tokens"] < seen["cache_tokens"]) and time.monotonic() < limit:
        time.sleep(0.05)
        seen = state(server)
    check("all room is free again", seen["sessions"] == 0 and seen["free_tokens"] == seen["cache_tokens"], seen)


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


def finish():
    sys.exit(f"{len(failures)} of them failed" if failures else 0)
