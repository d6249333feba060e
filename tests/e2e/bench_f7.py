# braid-bench f7: equal traces in two runs and for any order of the peers. Each dumped flow is checked by code of this test:
# conservation, capacity, the return of each unit to its own data peer, and no cost below the optimum.
import collections
import json
import os
import shutil
import subprocess
import sys

BENCH = os.environ["BRAID_BENCH"]
FOLDER = "flows"
WORST = "worst"


def bench(*flags):
    done = subprocess.run([BENCH, "f7", "--json", *flags], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench f7 {' '.join(flags)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def cost_of(instance, system):
    """Checks a system's paths and returns (units, cost, load of the heaviest link)."""
    stage = {p["name"]: p["stage"] for p in instance["peers"]}
    capacity = {p["name"]: p["capacity"] for p in instance["peers"]}
    cost = {(l["from"], l["to"]): l["cost"] for l in instance["links"]}
    stages = max(stage.values())
    load = dict.fromkeys(stage, 0)
    total = 0
    on_link = collections.Counter()
    for path in system["paths"]:
        assert len(path) == stages + 2, f"a path that breaks off: {path}"
        assert path[0] == path[-1] and stage[path[0]] == 0, f"not home again: {path}"
        assert [stage[name] for name in path[1:-1]] == list(range(1, stages + 1)), f"out of order: {path}"
        for name in path[:-1]:
            load[name] += 1
        total += sum(cost[link] for link in zip(path, path[1:]))
        on_link.update(zip(path, path[1:]))
    for name, carried in load.items():
        assert carried <= capacity[name], f"{name} carries {carried} of {capacity[name]}"
    return len(system["paths"]), total, max(units * cost[link] for link, units in on_link.items())


def check_file(path, test):
    with open(path, encoding="utf-8") as file:
        instance = json.load(file)
    systems = instance["systems"]
    if "optimum" not in systems:
        assert not glpk and test > 4, f"{path}: no optimum"
        for name in ("swarm", "braid"):
            cost_of(instance, systems[name])
        return
    best = cost_of(instance, systems["optimum"])
    seen = set()
    for name, system in systems.items():
        if name == "gwtf" and any(path[0] != path[-1] for path in system["paths"]):
            continue  # gwtf does not stop by itself, and was never whole
        units, cost, _ = cost_of(instance, system)
        assert units <= best[0], f"{path}: {name} sends {units} units, but only {best[0]} fit"
        assert units < best[0] or cost >= best[1], f"{path}: {name} costs {cost}, the optimum {best[1]}"
        if name == "braid":
            assert units == best[0], f"{path}: braid sends {units} units of {best[0]}"
            assert test > 4 or cost == best[1], f"{path}: braid costs {cost}, the optimum {best[1]}"
        seen.add(name)
    assert seen == systems_run | {"optimum"}, f"{path}: {seen}"


def check_worst():
    """The bottleneck objective: braid's heaviest link is the optimum's, and no system has a lighter one."""
    for name in sorted(os.listdir(WORST)):
        with open(os.path.join(WORST, name), encoding="utf-8") as file:
            instance = json.load(file)
        best, ours, swarm = (cost_of(instance, instance["systems"][s]) for s in ("optimum", "braid", "swarm"))
        assert ours[0] == best[0] and ours[2] == best[2], f"{name}: braid {ours}, the optimum {best}"
        assert swarm[2] >= best[2] and ours[1] >= best[1] - 1e-6, f"{name}: better than the optimum"


for folder in (FOLDER, WORST):
    shutil.rmtree(folder, ignore_errors=True)  # an earlier run of this test
flags = ["--seeds", "2", "--delays", "lockstep,heavy-tailed"]
rows = bench(*flags, "--dump", FOLDER, "--plot", "f7.svg")
assert rows == bench(*flags), "the second run differs"
assert rows == bench(*flags, "--listing", "42"), "the order of the listing matters"
parsed = [json.loads(line) for line in rows.splitlines()]
# without GLPK there is no optimum for several data peers
glpk = any(row["test"] > 4 and row["optima_proven"] > 0 for row in parsed)
systems_run = {row["system"] for row in parsed}
assert "braid" in systems_run and len(parsed) == 6 * 2 * len(systems_run), f"{len(parsed)} rows"
for row in parsed:
    where = f"test {row['test']}, {row['delay']}, {row['system']}"
    assert row["below_optimum"] == row["untidy"] == 0, f"{where}: cheaper than the optimum, or untidy"
    assert row["runs"] == 2 and (row["optima_proven"] == 2 or (row["test"] > 4 and not glpk)), where
    if row["system"] == "braid":
        assert row["whole"] == 2 and row["quiet"] == 2, where
assert len({row["trace_hash"] for row in parsed}) == len(parsed), "two rows with one trace"
files = sorted(os.listdir(FOLDER))
assert len(files) == 6 * 2 * 2, files
for name in files:
    check_file(os.path.join(FOLDER, name), int(name[len("f7-test")]))
with open("f7.svg", encoding="utf-8") as drawing:
    text = drawing.read()
assert text.startswith("<svg") and text.rstrip().endswith("</svg>") and text.count("<rect") > len(parsed), "no drawing"

flags = ["--seeds", "2", "--tests", "1,2,3,4", "--delays", "lockstep,heavy-tailed", "--objective", "worst"]
rows = bench(*flags, "--dump", WORST)
assert rows == bench(*flags, "--listing", "42"), "the order of the listing matters to the heaviest link"
parsed = [json.loads(line) for line in rows.splitlines()]
assert len(parsed) == 4 * 2 * len(systems_run) and len(os.listdir(WORST)) == 4 * 2 * 2
for row in parsed:
    where = f"test {row['test']}, {row['delay']}, {row['system']}"
    assert row["objective"] == "worst" and row["optima_proven"] == 2 and row["below_optimum"] == row["untidy"] == 0, where
    if row["system"] == "braid":
        assert row["optimal"] == row["quiet"] == 2 and row["sum_ratio"]["worst"] < 1.08, where
check_worst()
