#!/usr/bin/env python3
"""The events of a run in files: JSON lines, TensorBoard's format (read by a reader of its own here), and pictures of them."""

import json
import math
import os
import struct
import subprocess
import xml.etree.ElementTree

from swarmlib import PROGRAM, expect, workplace, write_run

ITERATIONS = 24
BRAID = os.path.abspath(PROGRAM)


def braid(*arguments, code=0, says="", env=None):
    done = subprocess.run([BRAID, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})
    expect(done.returncode == code and says in done.stderr, f"{arguments}: code {done.returncode}, not {code} and '{says}': {done.stderr}")
    return done.stdout


# ---- TensorBoard's files, from their definition


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        body = data[at + 12 : at + 12 + length]
        expect(crc == masked(data[at : at + 8]), f"the length at {at} has another checksum")
        expect(struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"the event at {at} has another checksum")
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = struct.unpack("<d" if kind == 1 else "<f", data[at : at + size])[0], at + size
        else:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def scalars(directory):
    names = os.listdir(directory)
    expect(len(names) == 1 and "tfevents" in names[0], f"{names}")
    with open(os.path.join(directory, names[0]), "rb") as file:
        first, *events = [list(fields(body)) for body in records(file.read())]
    expect((3, b"brain.Event:2") in first, f"the first event is {first}")
    found = {}
    for event in map(dict, events):
        for _, value in fields(event[5]):
            pair = dict(fields(value))
            found[pair[1].decode(), event.get(2, 0)] = pair[2]
    return found


# ---- the test


def check_board(directory, events):
    found = scalars(directory)
    for event in events:
        if event["event"] == "iteration":
            for tag, key in (("loss/train", "loss"), ("train/learning_rate", "learning_rate"), ("train/gradient_norm", "norm")):
                expect(math.isclose(found[tag, event["iteration"]], event[key], rel_tol=1e-6), f"{tag} of {event} is {found[tag, event['iteration']]}")
        if event["event"] == "eval":
            expect(math.isclose(found["loss/held_out", event["iteration"]], event["loss"], rel_tol=1e-6), f"{event}")
    expect(("train/tokens_per_second", ITERATIONS) in found, "no speed")


def check_picture(path, words):
    root = xml.etree.ElementTree.parse(path).getroot()
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for word in words:
        expect(any(word in (text or "") for text in texts), f"{path} does not say '{word}': {texts}")
    return [path.get("d") for path in root.iter("{http://www.w3.org/2000/svg}path")]


def main():
    with workplace() as directory:
        os.chdir(directory)
        run = write_run(directory, iterations=ITERATIONS, checkpoint=True)
        told = braid("train", "--solo", run, "--json", "--events", "run.jsonl", "--tensorboard", "board")
        with open("run.jsonl", encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        expect([{k: v for k, v in event.items() if k != "time"} for event in events] == [json.loads(line) for line in told.splitlines()], "the file has other events than --json")
        expect(all(a["time"] <= b["time"] for a, b in zip(events, events[1:])), "times go back")
        check_board("board", events)

        braid("plot", "run.jsonl", says=f"run.svg: {ITERATIONS} iterations")
        lines = check_picture("run.svg", (f"iteration {ITERATIONS} of {ITERATIONS}", "Loss", "held out", "Tokens a second", "checkpoints"))
        expect(lines[0].count("L") == ITERATIONS - 1, f"the loss has {lines[0].count('L') + 1} points")
        braid("plot", "run.jsonl", "--time", "--out", "time.svg")
        check_picture("time.svg", ("seconds",))
        swarm = [
            {"event": "started", "iteration": 0, "of": 9, "name": "a <b> & c", "parameters": 48352, "stages": 2, "tokens": 64, "microbatches": 2},
            {"event": "joined", "iteration": 0, "stage": 0, "role": "data", "peer": "aa", "member": 1},
            {"event": "joined", "iteration": 0, "stage": 1, "role": "relay", "peer": "bb", "member": 2},
            *({"event": "iteration", "iteration": i, "of": 9, "loss": 5 - i / 9, "tokens_per_second": 100} for i in (1, 2, 3, 4)),
            {"event": "expelled", "iteration": 4, "stage": 1, "role": "relay", "peer": "bb", "member": 2, "reason": "lost"},
            {"event": "rolled_back", "iteration": 2, "stage": 1, "total": 2, "generation": 2},
            *({"event": "iteration", "iteration": i, "of": 9, "loss": 5 - i / 9, "tokens_per_second": 100} for i in (3, 4, 5)),
        ]
        with open("swarm.jsonl", "w", encoding="ascii") as file:
            file.write("\n".join(json.dumps(event) for event in swarm) + '\n{"event": "itera')
        braid("plot", "swarm.jsonl", says="1 of 13 lines are no events")
        lines = check_picture("swarm.svg", ("a <b> & c", "Peers of each stage", "stage 1", "rolled back"))
        expect(lines[0].count("M") == 2 and lines[0].count("L") == 5, f"the line does not break where the run went back: {lines[0]}")

        braid("plot", "none.jsonl", code=1, says="cannot open none.jsonl")
        braid("plot", run, code=1, says="has no iteration with a loss; give a file of --events")
        braid("plot", "swarm.jsonl", "--time", code=1, says="have no times, as those of --events have; leave out --time")
        braid("plot", "run.jsonl", "--out", "no/where.svg", code=1, says="cannot write no/where.svg")
        braid("plot", "run.jsonl", "--out", "run.png", code=1, says="package librsvg2-bin", env={"PATH": "/nonexistent"})
        braid("train", "--solo", run, "--events", "no/where.jsonl", code=1, says="--events: cannot open no/where.jsonl")
        braid("train", "--solo", run, "--tensorboard", "no/where/at", code=1, says="make its parent directory first")
        expect(not os.path.exists("no"), "a refused run left a directory")


main()
