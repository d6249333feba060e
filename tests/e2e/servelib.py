"""A serving swarm with its processes in network namespaces (linelib), and texts from its API."""

import ctypes
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from delaylib import quick, start_forwarders
from linelib import address

LIBC = ctypes.CDLL(None, use_errno=True)
PATIENCE = 300  # seconds for anything to come; only a hang takes so long


def enter_namespace(process):
    """Sockets that the calling thread opens from now on are in the network namespace of `process`."""
    handle = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
    try:
        if LIBC.setns(handle, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(handle)


def write_text(url, on_piece, body):
    """One streamed text: its pieces, their times, the number of tokens and the error. `on_piece` is called after each piece."""
    body = {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, **body}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    text = {"pieces": [], "times": [], "error": None, "tokens": 0, "start": time.monotonic()}
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                text["error"] = event.get("error", text["error"])
                text["tokens"] = (event.get("usage") or {}).get("completion_tokens", text["tokens"])
                if event.get("choices"):
                    text["pieces"].append(event["choices"][0]["text"])
                    text["times"].append(time.monotonic())
                    if on_piece:
                        on_piece()
    except OSError as failure:
        text["error"] = failure
    return text


class Swarm:
    """The API node in place 0 of `lines`, and a peer for each of `spans`, (first, end), in the places after it. A peer keeps its
    identity when it is started again. `delay`: of each hop, in seconds, and `slowness` as in delaylib.listen."""

    def __init__(self, program, model, spans, lines, flags=(), delay=None, slowness=quick):
        self.ports = ["--listen", "{}:4711"] if delay is None else ["--listen", "127.0.0.1:4712", "--public-address", "{}:4711"]
        for place in range(len(spans) + 1 if delay is not None else 0):
            process = lines.place[place].pid
            start_forwarders([((address(place), 4711), 4712)], delay, lambda process=process: enter_namespace(process), slowness)
        self.program, self.model, self.spans, self.lines = program, model, spans, lines
        self.directory = tempfile.TemporaryDirectory()
        self.lock, self.ends, self.processes, self.peers = threading.Lock(), False, {}, {}
        self.api = self._start(0, "serve", model, "--port", "0", "--peers", "0", *flags)
        output = iter(self.api.stdout.readline, "")
        self.url = self._find(output, r"(http://\S+)")
        self.ticket = self._find(output, r"--join (serve1\.\S+)")
        threading.Thread(target=lambda: [None for _ in output], daemon=True).start()
        for peer in range(len(spans)):
            self.start_peer(peer)

    @staticmethod
    def _find(output, pattern):
        for line in output:
            found = re.search(pattern, line)
            if found:
                return found.group(1)
        raise SystemExit(f"braid serve ended without '{pattern}'")

    def _start(self, place, *arguments):
        ports = [part.format(address(place)) for part in self.ports]
        identity = os.path.join(self.directory.name, f"{place}.key")
        command = [*self.lines.inside(place), self.program, *arguments, *ports, "--identity", identity]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)

    def start_peer(self, peer):
        first, end = self.spans[peer]
        with self.lock:
            if self.ends:
                return
            process = self._start(peer + 1, "node", "--join", self.ticket, "--model", self.model, "--layers", f"{first}:{end}")
            self.peers[peer] = process
        threading.Thread(target=self._read, args=(peer, process), daemon=True).start()

    def _read(self, peer, process):
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("serving layers"):
                with self.lock:
                    self.processes[peer] = process.pid
        status = process.wait()
        if status > 0:
            print(f"peer {peer} ended with {status}: {''.join(lines)}", flush=True)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def wait_ready(self):
        """In a thread inside the namespace of the API node."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            try:
                self.get("/ready")
                if len(self.processes) == len(self.spans):
                    self.name = self.get("/v1/models")["data"][0]["id"]
                    return
            except urllib.error.HTTPError:
                pass
            time.sleep(0.05)
        raise SystemExit("the swarm did not become ready")

    def status(self):
        state = self.get("/v1/swarm")
        return state.get("swarm") or state

    def end(self):
        with self.lock:
            self.ends = True
            processes = [*self.peers.values(), self.api]
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            process.wait(60)
        self.directory.cleanup()
