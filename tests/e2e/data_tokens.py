#!/usr/bin/env python3
"""Trains on tokens: a tokenizer from `braid tokenize --train`, sources as JSON lines, gzip and plain
text, weighed by data.mix, without attention across documents. A swarm ends with the weights of one
process after the deaths of a relay, a data peer and the leader. Then the same from the saved model
(--from): relays on their own get its weights from the leader. A changed source makes another
cache."""

import gzip
import json
import os
import random
import subprocess

from swarmlib import ENDLESS, PROGRAM, WORDS, Braid, expect, seed_of_test, solo, workplace


def write_sources(directory, seed):
    rng = random.Random(seed)
    documents = [" ".join(rng.choice(WORDS) for _ in range(rng.randrange(5, 120))) for _ in range(900)]
    os.mkdir(os.path.join(directory, "rows"))
    with open(os.path.join(directory, "rows", "a.jsonl"), "w", encoding="utf-8") as file:
        for i, text in enumerate(documents[:400]):
            file.write(json.dumps({"id": i, "story": None if i == 7 else text}) + "\n")
    with gzip.open(os.path.join(directory, "rows", "b.jsonl.gz"), "wt", encoding="utf-8") as file:
        for text in documents[400:700]:
            file.write(json.dumps({"story": text}) + "\n")
    with open(os.path.join(directory, "plain.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(documents[700:]))


def tokenize(directory):
    corpus = os.path.join(directory, "plain.txt")
    subprocess.run([PROGRAM, "tokenize", "--train", corpus, "--vocab", "320", "--out", os.path.join(directory, "tokenizer")], check=True, capture_output=True,
                   env={**os.environ, "BRAID_CONFIG": "/dev/null"})


def write_run(directory, name, iterations, model, checkpoint=None):
    path = os.path.join(directory, name)
    with open(path, "w", encoding="ascii") as file:
        file.write(f"""seed: 3
stages: [0, 1, 1]
model: {model}
data:
  mix:
    stories: {{text: 'rows/*.jsonl*', weight: 3, field: story}}
    plain: {{text: plain.txt}}
  tokenizer: tokenizer
  cache: cache
  document_attention: true
  holdout: 0.1
train: {{iterations: {iterations}, microbatches: 6, sequences: 2, tokens: 32, warmup: 2}}
eval: {{every: 10, microbatches: 2}}
swarm: {{data_peers: 3}}
""")
        if checkpoint:
            file.write(f"checkpoint: {{dir: {checkpoint}}}\n")
    return path


def caches(directory):
    return sorted(name for name in os.listdir(os.path.join(directory, "cache")) if name.endswith(".tokens"))


def main():
    seed = seed_of_test()
    with workplace() as directory:
        write_sources(directory, seed)
        tokenize(directory)
        shape = "{dim: 32, layers: 2, heads: 2, context: 32}"

        wild = Braid("up", write_run(directory, "run.yaml", ENDLESS, shape), "--relays", "5", "--kill", "relay1@iteration:4/backward", "--kill", "data2@iteration:7",
                     "--kill", "leader@iteration:10", "--late", "1@iteration:5")
        wild.wait_for_killed(3)
        done, weights = wild.end()
        expect(len(caches(directory)) == 2, f"the processes made {caches(directory)}, not a cache for each of two sources")
        notes = " ".join(event.get("text", "") for event in wild.of("note"))
        for part in ("1 of 700 rows have no text in 'story'", "stories: 699 documents", "75.00 % of the sequences", "plain: 1 documents", "bytes each"):
            expect(part in notes, f"no note says '{part}': {notes}")

        one = Braid("train", "--solo", write_run(directory, "run.yaml", ENDLESS, shape, "saved"), "--iterations", str(done))
        expect(one.weights() == weights, f"a swarm with kills, {done} iterations: {weights} is not {one.weights()}")
        expect(not any("tokenising" in event.get("text", "") for event in one.of("note")), "the cache was made again")
        saved = os.path.join(directory, "saved", "latest")
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            expect(os.path.exists(os.path.join(saved, name)), f"the checkpoint has no {name}")
        with open(os.path.join(saved, "tokenizer.json"), "rb") as file, open(os.path.join(directory, "tokenizer", "tokenizer.json"), "rb") as own:
            expect(file.read() == own.read(), "the checkpoint's tokenizer is another one")

        tuned = write_run(directory, "tuned.yaml", 12, "{context: 32}")
        one = solo(tuned, 12, "--from", saved)
        leader = Braid("node", "--lead", "--run", tuned, "--from", saved, "--listen", "127.0.0.1:0", "--wait-data-peers", "1", "--wait-relays", "2", commands=True)
        ticket = leader.wait_for("ready")["ticket"]
        relays = [Braid("node", "--join", ticket, commands=True) for _ in range(2)]
        expect(leader.weights() == one, "a swarm whose relays fetch the model's weights has other ones in the end")
        for relay in relays:
            relay.finish()
        swarm = Braid("up", tuned, "--relays", "4", "--from", saved, "--kill", "any@iteration:3/weight", "--kill", "stage:2@iteration:6")
        expect(swarm.weights() == one, "a swarm from the model, with kills, has other weights in the end")
        expect(solo(tuned, 12, "--from", saved, "--threads", "2") == one, "two threads")
        gguf = os.path.join(directory, "saved.gguf")
        subprocess.run([PROGRAM, "convert", saved, gguf, "--to", "f32"], check=True, capture_output=True, env={**os.environ, "BRAID_CONFIG": "/dev/null"})
        expect(solo(tuned, 12, "--from", gguf) == one, "the same model as a GGUF file has other weights in the end")

        with open(os.path.join(directory, "plain.txt"), "a", encoding="utf-8") as file:
            file.write("\nand one line more")
        other = Braid("train", "--solo", write_run(directory, "run.yaml", ENDLESS, shape), "--iterations", "1")
        other.weights()
        expect(len(caches(directory)) == 3, f"a changed source: {caches(directory)}")


main()
