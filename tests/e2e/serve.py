#!/usr/bin/env python3
"""braid serve: texts over HTTP are those of braid generate, alone and at once; orderly and hasty ends; mistakes."""
import http.client, json, os, re, signal, subprocess, sys, threading

BRAID, SOURCE = os.environ["BRAID"], os.environ["SOURCE"]
failures = []


def check(what, good, seen=""):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}: {seen}", flush=True)


def make_model():
    make = ('. "$SOURCE/tests/e2e/lib.sh"; write_text words.txt; write_run run.yaml;'
            ' "$BRAID" train --solo run.yaml --save saved --threads 1 >train.txt 2>&1;'
            ' "$BRAID" convert saved directory --to f32 >convert.txt 2>&1')
    subprocess.run(["bash", "-c", make], check=True)


class Server:
    def __init__(self, *flags, model="directory"):
        self.process = subprocess.Popen([BRAID, "serve", model, "--port", "0", "--threads", "2", *flags],
                                        stdout=subprocess.PIPE, text=True)
        self.lines = [self.process.stdout.readline() for _ in range(3)]
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", self.lines[0]).group(1))

    def ask(self, body, path="/v1/completions"):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = c.getresponse()
        return answer.status, json.loads(answer.read())

    def text(self, **body):
        status, answer = self.ask(body)
        return answer["choices"][0]["text"] if status == 200 else f"{status} {answer}"

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        rest = self.process.stdout.read()
        return self.process.wait(), rest


def generate(prompt, tokens, seed):
    return subprocess.run([BRAID, "generate", "directory", "--prompt", prompt, "--tokens", str(tokens), "--seed",
                           str(seed), "--temperature", "1", "--threads", "1"], capture_output=True, text=True,
                          check=True).stdout[len(prompt):]


def texts_are_those_of_generate():
    server = Server("--parallel", "4")
    check("name and address", server.lines[0].startswith("directory at http://127.0.0.1:"), server.lines)
    check("memory", "memory: at most" in server.lines[1] and "keys and values" in server.lines[1], server.lines)
    check("context", "context: 32 tokens a text; up to 4 texts at once, 2 threads" in server.lines[2], server.lines)
    wanted = [generate("the river "[: 3 + i % 4], 20, i) for i in range(8)]
    found = [None] * 8

    def one(i):
        found[i] = server.text(prompt="the river "[: 3 + i % 4], max_tokens=20, seed=i, temperature=1)

    for i in range(3):
        one(i)
        check(f"text {i} alone", found[i] == wanted[i], (found[i], wanted[i]))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check("eight texts at once", found == wanted, (found, wanted))
    status, answer = server.ask({"prompt": "x" * 40, "max_tokens": 4})
    check("a prompt that is too long", status == 400 and "40 tokens" in answer["error"]["message"], (status, answer))
    code, rest = server.stop()
    check("an end without texts", code == 0 and rest == "", (code, rest))


def ends_cancel_texts():
    """A text that would never end: SIGTERM cancels it after half of the limit, a client sees the end."""
    server = Server("--stop-within", "2s", "--context", "32")
    seen = {}

    def endless():
        for i in range(100000):
            try:
                status, answer = server.ask({"prompt": "the", "max_tokens": 28, "seed": i, "ignore_eos": True})
            except OSError as e:
                seen["end"] = str(e)
                return
            if status != 200:
                seen["end"] = f"{status} {answer}"
                return
            seen["texts"] = i

    client = threading.Thread(target=endless)
    client.start()
    while seen.get("texts", 0) < 2 and client.is_alive():
        pass
    code, _ = server.stop(signal.SIGINT)
    client.join()
    check("an end beside texts", code == 0 and "end" in seen, (code, seen))


def mistakes():
    def expect(code, text, *arguments):
        r = subprocess.run([BRAID, "serve", *arguments], capture_output=True, text=True, timeout=100)
        check(" ".join(arguments), r.returncode == code and text in r.stderr, (r.returncode, r.stderr))

    expect(1, "nowhere", "nowhere")
    expect(2, "MODEL is missing", "--port", "0")
    expect(1, "are too few for this model: its weights need", "directory", "--max-memory", "20K")
    expect(1, "is longer than the model's", "directory", "--context", "64")
    server = Server()
    expect(1, str(server.port), "directory", "--port", str(server.port))
    server.stop()


make_model()
texts_are_those_of_generate()
ends_cancel_texts()
mistakes()
sys.exit(f"{len(failures)} failures" if failures else 0)
