# braid-bench t6: equal tables in two runs. Code of this test checks each dumped path and recomputes the time of each iteration.
import heapq
import json
import os
import shutil
import subprocess
import sys

BENCH = os.environ["BRAID_BENCH"]
FOLDER = "flows"
RELAY_STAGES, MICROBATCHES = 5, 3


def bench(*flags):
    done = subprocess.run([BENCH, "t6", "--json", *flags], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench t6 {' '.join(flags)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def load(seed, what):
    with open(os.path.join(FOLDER, f"t6-seed{seed}-{what}.json"), encoding="utf-8") as file:
        return json.load(file)


def iteration_ns(network, paths):
    """Returns the time at which the last gradient is at its owner: a heap of ends, and queues at peers and links."""
    peer = {p["name"]: p for p in network["peers"]}
    link = {(l["from"], l["to"]): l for l in network["links"]}
    last = len(paths[0]) - 1
    ways = [path + path[-2::-1] for path in paths]  # forward, to the owner, backward
    held, computing, sending = dict.fromkeys(peer, 0), set(), set()
    at_peer, at_link, ends = {}, {}, []

    def resource(m, step):
        return (ways[m][step], ways[m][step + 1]) if network["link"] == "pair" else ways[m][step]

    for m, way in enumerate(ways):
        at_peer.setdefault(way[0], []).append((False, 0, m, 0))
    now = 0
    while True:
        for name, queue in at_peer.items():
            full = held[name] >= (peer[name]["capacity"] or len(paths))
            able = [w for w in queue if w[3] == 0 or w[3] >= last or not full]
            if name in computing or not able:
                continue
            # a gradient first, then the longest wait, then the lower number
            chosen = min(able, key=lambda w: (not w[0], w[1], w[2]))
            queue.remove(chosen)
            m, step = chosen[2:]
            held[name] += 0 < step < last
            computing.add(name)
            kind = "forward_ns" if step < last else "home_ns" if step == last else "backward_ns"
            heapq.heappush(ends, (now + peer[name][kind], "computed", m, step))
        for which, queue in at_link.items():
            if which in sending or not queue:
                continue
            chosen = min(queue)
            queue.remove(chosen)
            m, step = chosen[1:]
            l = link[ways[m][step], ways[m][step + 1]]
            sending.add(which)
            heapq.heappush(ends, (now + l["transfer_ns"], "sent", m, step))
            heapq.heappush(ends, (now + l["transfer_ns"] + l["latency_ns"], "there", m, step + 1))
        if not ends:
            break
        now = ends[0][0]
        while ends and ends[0][0] == now:
            _, what, m, step = heapq.heappop(ends)
            if what == "computed":
                name = ways[m][step]
                computing.remove(name)
                held[name] -= last < step < 2 * last
                if step < 2 * last:
                    at_link.setdefault(resource(m, step), []).append((now, m, step))
            elif what == "sent":
                sending.remove(resource(m, step))
            else:
                at_peer.setdefault(ways[m][step], []).append((step >= last, now, m, step))
    return now


def check_paths(where, instance, system):
    """Checks paths against stages, links and capacity; returns their cost."""
    peer = {p["name"]: p for p in instance["peers"]}
    cost = {(l["from"], l["to"]): l["cost"] for l in instance["links"]}
    load_of = dict.fromkeys(peer, 0)
    for path in system["paths"]:
        assert path[0] == path[-1], f"{where}: not home again: {path}"
        assert [peer[n]["stage"] for n in path] == [*range(RELAY_STAGES + 1), 0], f"{where}: out of order: {path}"
        for name in path[:-1]:
            load_of[name] += 1
    for name, carried in load_of.items():
        assert carried <= peer[name]["capacity"], f"{where}: {name} carries {carried}"
    return sum(cost[hop] for path in system["paths"] for hop in zip(path, path[1:]))


def check_network(network):
    """A link's cost is latency, transfer and computing; 8 MiB at 1.5625 .. 15.625 Mb/s."""
    for l in network["links"]:
        assert 4.29e9 < l["transfer_ns"] < 42.96e9 and 1e6 <= l["latency_ns"] <= 265e6, l


def check_instance(where, network, instance):
    peer = {p["name"]: p for p in network["peers"]}
    link = {(l["from"], l["to"]): l for l in network["links"]}
    stages = [p["stage"] for p in instance["peers"]]
    assert all(stages.count(s) == 3 for s in range(RELAY_STAGES + 1)), f"{where}: {stages}"
    assert len(instance["links"]) == 9 * (RELAY_STAGES + 1), where
    for l in instance["links"]:
        c = [(peer[l[end]]["forward_ns"] + peer[l[end]]["backward_ns"]) / 2 for end in ("from", "to")]
        way = link[l["from"], l["to"]]
        assert abs(sum(c) / 2 + way["latency_ns"] + way["transfer_ns"] - l["cost"] * 1e9) <= 1e6, f"{where}: {l}"


def check_seed(seed, rows):
    """Checks a seed's dump; adds minutes per microbatch to `rows`."""
    network = load(seed, "network")
    check_network(network)
    for stages in ("DT-FM", "joined", "traded"):
        instance = load(seed, stages)
        where = f"seed {seed}, stages {stages}"
        check_instance(where, network, instance)
        costs = {}
        for name, system in instance["systems"].items():
            count = len(system["paths"])
            assert count <= 3 * MICROBATCHES, f"{where}, {name}: {count} microbatches"
            whole = count == 3 * MICROBATCHES
            assert whole or name == "gwtf", f"{where}, {name}: {count} microbatches"
            told = network["times"][stages][name]
            if any(len(path) < RELAY_STAGES + 2 for path in system["paths"]):
                continue  # gwtf does not stop by itself, so a change may be under way
            cost = check_paths(f"{where}, {name}", instance, system)
            if whole:
                costs[name] = cost
            took = iteration_ns(network, system["paths"])
            assert told["microbatches"] == count, f"{where}, {name}: {told}"
            assert told["pipeline_ns"] == took, f"{where}, {name}: {told['pipeline_ns']}, computed anew {took}"
            rows.setdefault((stages, name), []).append(took / 60e9 / count)
        if "optimum" in costs:
            assert min(costs.values()) > costs["optimum"] - 1e-6, f"{where}: {costs}"
        assert ("dtfm" in costs) == (stages == "DT-FM")


shutil.rmtree(FOLDER, ignore_errors=True)  # an earlier run of this test
flags = ["--seeds", "2", "--first", "1"]
text = bench(*flags, "--dump", FOLDER, "--plot", "t6.svg")
assert text == bench(*flags), "the second run differs"
found = {}
for number in (1, 2):
    check_seed(number, found)
parsed = [json.loads(line) for line in text.splitlines()]
assert {"dtfm", "swarm", "gwtf", "braid"} <= {row["system"] for row in parsed}
for row in parsed:
    key = (row["stages"], row["system"])
    assert row["runs"] == 2 and row["over_capacity"] == 0, key
    assert row["whole"] == 2 or row["system"] == "gwtf", key
    if row["system"] in ("swarm", "braid"):
        assert row["quiet"] == 2, key
    if len(found.get(key, [])) == 2:
        mean = sum(found[key]) / 2
        assert abs(row["minutes_per_microbatch"]["mean"] / mean - 1) < 1e-9, f"{key}: {row}, computed anew {mean}"
assert len(found) >= 10, found
assert len({row["trace_hash"] for row in parsed}) == len(parsed), "two rows with one trace"

# One link out of each peer: never faster.
shutil.rmtree(FOLDER)
bench("--seeds", "1", "--first", "1", "--link", "peer", "--weights", "--dump", FOLDER)
shared = {}
check_seed(1, shared)

for wrong in (["--capacity", "2"], ["--link", "both"], ["--delay", "none"]):
    done = subprocess.run([BENCH, "t6", *wrong], capture_output=True, text=True)
    assert done.returncode == 2 and wrong[0] in done.stderr, f"{wrong}: {done.returncode}, {done.stderr}"
with open("t6.svg", encoding="utf-8") as drawing:
    svg = drawing.read()
assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>") and svg.count("<rect") > len(parsed), "no drawing"
