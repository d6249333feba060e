#!/usr/bin/env python3
"""braid serve --adapter: adapters that runs have trained are listed, chosen by `model`, and answer together as they do alone. SIGUSR1
reads them again: a request that streams meanwhile ends with the old one, the next one has the new one."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading

from swarmlib import BOUND, PROGRAM, expect, solo, workplace, write_text


def write_run(directory, name, *lines):
    path = os.path.join(directory, f"{name}.yaml")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join((*lines, f"checkpoint: {{dir: {directory}/{name}}}")) + "\n")
    return path


def train(directory):
    """A model, and three adapters of it."""
    write_text(f"{directory}/text.txt", 5)
    base = write_run(directory, "base", "model: {dim: 32, layers: 2, heads: 2, context: 512}", f"data: {{text: {directory}/text.txt}}", "train: {iterations: 30, tokens: 32}")
    solo(base, 30)
    for i in (1, 2, 3):
        run = write_run(directory, f"adapter{i}", f"seed: {i}", f"adapter: {{rank: {2 + i}, alpha: 64}}", f"data: {{text: {directory}/text.txt, tokenizer: bytes, cache: {directory}/cache}}",
                        "train: {iterations: 8, tokens: 32, learning_rate: 0.1}")
        solo(run, 8, "--from", f"{directory}/base/latest")


class Server:
    def __init__(self, *flags):
        self.process = subprocess.Popen([*BOUND, PROGRAM, "serve", *flags, "--port", "0", "--threads", "2"], stdout=subprocess.PIPE, text=True)
        lines = [self.process.stdout.readline() for _ in range(3)]
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", lines[0]).group(1))

    def ask(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        return connection.getresponse()

    def text(self, model):
        answer = json.loads(self.ask("/v1/completions", {"model": model, "prompt": "the river ", "max_tokens": 40, "seed": 3, "temperature": 1}).read())
        expect("choices" in answer, f"{model}: {answer}")
        expect(answer["model"] == model, f"the answer of {model} says {answer['model']}")
        return answer["choices"][0]["text"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stdout.read()
        expect(self.process.wait() == 0, f"serve ended with {self.process.returncode}: {rest}")


def alone(directory, *adapters):
    """The text of the last of these names in a server of its own."""
    server = Server(f"{directory}/base/latest", "--name", "base", *adapters)
    name = adapters[1].split("=")[0] if adapters else "base"
    text = server.text(name)
    server.stop()
    return text


def streamed(response):
    text = ""
    for line in response:
        line = line.decode()
        if line.startswith("data: {"):
            text += json.loads(line[6:])["choices"][0]["text"]
    return text


def expect_refused(said, *arguments):
    done = subprocess.run([PROGRAM, "serve", *arguments], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.strip().splitlines()
    expect(done.returncode != 0 and len(lines) == 1 and said in lines[0], f"{arguments}: {done.returncode} {lines}, and not '{said}'")


def main():
    with workplace() as directory:
        os.environ["XDG_CACHE_HOME"] = f"{directory}/user"
        train(directory)
        shutil.copytree(f"{directory}/adapter1/latest", f"{directory}/used")
        flags = ("--adapter", f"one={directory}/used", "--adapter", f"two={directory}/adapter2/latest")
        wanted = {"base": alone(directory), "one": alone(directory, *flags[:2]), "two": alone(directory, *flags[2:])}
        changed = alone(directory, "--adapter", f"one={directory}/adapter3/latest")
        expect(len({*wanted.values(), changed}) == 4, f"texts that should differ: {wanted}, {changed}")

        server = Server(f"{directory}/base/latest", "--name", "base", *flags)
        models = json.loads(server.ask("/v1/models").read())["data"]
        expect([(m["id"], m.get("parent")) for m in models] == [("base", None), ("one", "base"), ("two", "base")], f"{models}")
        expect(server.ask("/v1/models/two").status == 200 and server.ask("/v1/models/three").status == 404, "one model's description")
        expect(server.ask("/v1/completions", {"model": "three", "prompt": "a"}).status == 404, "a model that is not there")

        found = {}
        threads = [threading.Thread(target=lambda key=(name, i): found.__setitem__(key, server.text(key[0]))) for name in wanted for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for (name, _), text in found.items():
            expect(text == wanted[name], f"{name} beside others: {text}, alone {wanted[name]}")

        # the text under way is long: it is still written when the adapters have been read again
        body = {"model": "one", "prompt": "the river ", "max_tokens": 400, "seed": 3, "temperature": 1, "stream": True}
        long = streamed(server.ask("/v1/completions", body))
        under_way = server.ask("/v1/completions", body)
        first = under_way.readline().decode()
        shutil.rmtree(f"{directory}/used")
        shutil.copytree(f"{directory}/adapter3/latest", f"{directory}/used")
        server.process.send_signal(signal.SIGUSR1)
        expect("read 2 adapters again" in server.process.stdout.readline(), "no word of the reload")
        expect(server.text("one") == changed, "the adapter is not the new one")
        expect(server.text("two") == wanted["two"], "another adapter has changed")
        rest = streamed(under_way)
        expect(json.loads(first[6:])["choices"][0]["text"] + rest == long, "the text under way has changed")

        os.remove(f"{directory}/used/adapter_config.json")
        server.process.send_signal(signal.SIGUSR1)
        expect("the adapters stay as they are" in server.process.stdout.readline(), "a reload without a file")
        expect(server.text("one") == changed, "a failed reload has changed an adapter")
        server.stop()

        base = f"{directory}/base/latest"
        expect_refused("give NAME=DIRECTORY", base, "--adapter", "one")
        expect_refused("has no adapter_config.json", base, "--adapter", f"one={base}")
        expect_refused("is an adapter and no model", f"{directory}/adapter1/latest")


main()
