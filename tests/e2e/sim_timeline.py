"""The timeline of braid sim --trace: JSON for Perfetto, named tracks, arrows with both ends."""

import collections
import json
import subprocess
import tempfile

from swarmlib import PROGRAM, expect, seed_of_test

SCENARIO = """seed: {seed}
model: demo
stages: 3
iterations: 4
microbatches: 4
peers:
- {{name: d, role: data, gflops: 50, count: 2, capacity: 4}}
- {{name: one, stage: 1, gflops: 50, count: 3, capacity: 4}}
- {{name: two, stage: 2, gflops: 50, count: 3, capacity: 4}}
links: {{latency_ms: 20, jitter_ms: 2, up_mbps: 50, down_mbps: 200}}
churn: {{crash: 0.2, rejoin: 0.5, dies: process}}
"""


def simulate(directory, seed):
    path, trace = f"{directory}/scenario.yaml", f"{directory}/trace.json"
    with open(path, "w", encoding="ascii") as file:
        file.write(SCENARIO.format(seed=seed))
    done = subprocess.run([PROGRAM, "sim", path, "--json", "--no-plan-join", "--check", "--trace", trace], capture_output=True, text=True)
    expect(done.returncode == 0, f"braid sim: {done.stdout}{done.stderr}")
    with open(trace, encoding="ascii") as file:
        return json.loads(done.stdout), json.load(file)["traceEvents"]


def check_tracks(events, peers):
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    processes = {event["pid"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    expect({event["pid"] for event in events} == processes, "every process has a name")
    used = {(event["pid"], event["tid"]) for event in events if event["ph"] in "Xistf"}
    expect(used <= names.keys(), f"tracks without a name: {used - names.keys()}")
    expect(peers <= set(names.values()), "every peer has a track")
    return names


def check_slices(events):
    """One peer does one job at a time."""
    slices = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            expect(event["dur"] >= 0 and event["ts"] >= 0, f"{event}")
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for track in slices.values():
        track.sort()
        for before, after in zip(track, track[1:]):
            expect(before[1] <= after[0] + 0.0015, f"two jobs at once: {before}, {after}")
    return slices


def check_arrows(events, slices):
    arrows = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            arrows[event["id"]].append(event)
            inside = any(begin <= event["ts"] <= end for begin, end, _ in slices[event["pid"], event["tid"]])
            expect(inside, f"an arrow that starts at no slice: {event}")
    for number, points in arrows.items():
        points.sort(key=lambda event: event["ts"])
        phases = "".join(event["ph"] for event in points)
        expect(phases[0] == "s" and phases[-1] == "f" and set(phases[1:-1]) <= {"t"}, f"arrow {number}: {phases}")
    return arrows


def check_spans(events):
    open_spans = collections.Counter()
    for event in events:
        if event["ph"] in "be":
            open_spans[event["id"]] += 1 if event["ph"] == "b" else -1
            expect(open_spans[event["id"]] in (0, 1), f"a tensor begins once and ends once: {event}")
    return sum(event["ph"] == "b" for event in events)


def main():
    seed = seed_of_test()
    with tempfile.TemporaryDirectory() as directory:
        result, events = simulate(directory, seed)
        check_tracks(events, {peer["name"] for peer in result["peers"]})
        slices = check_slices(events)
        arrows = check_arrows(events, slices)
        expect(len(arrows) == 4 * 8, f"an arrow for each microbatch of each iteration: {len(arrows)}")
        expect(check_spans(events) > 100, "tensors on their way")
        deaths = sum(event["ph"] == "i" and "dies" in event["name"] for event in events)
        crashes = sum(peer["crashes"] for peer in result["peers"])
        expect(deaths == crashes, f"a mark for each of {crashes} crashes: {deaths}")


main()
