# braid-bench scale: equal rows in two runs, plausible rows, a drawing, errors that name the mistake.
import json
import os
import subprocess
import sys

BENCH = os.environ["BRAID_BENCH"]


def bench(*flags, code=0):
    done = subprocess.run([BENCH, "scale", *flags], capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(f"bench scale {' '.join(flags)} ended with {done.returncode} instead of {code}: {done.stderr}")
    return done.stdout if code == 0 else done.stderr


rows = bench("--peers", "50,100", "--seeds", "2", "--json", "--plot", "scale.svg")
assert rows == bench("--peers", "50,100", "--seeds", "2", "--json"), "the second run differs"
parsed = [json.loads(line) for line in rows.splitlines()]
assert [row["peers"] for row in parsed] == [50, 100], rows
for row in parsed:
    assert row["runs"] == row["quiet"] == row["ratio"]["count"] == 2 and row["over_capacity"] == 0, row
    assert 1 <= row["ratio"]["mean"] <= row["ratio"]["worst"] < 1.05, row["ratio"]
    until = [row[key]["mean"] for key in ("messages_until_whole", "messages_until_near", "messages_per_peer")]
    assert 0 < until[0] <= until[1] <= until[2], until
    assert row["router_kib_per_peer"]["worst"] + row["run_kib_per_peer"]["worst"] < 96, row
    assert "seconds" not in row, "a figure of this machine without --timing"
timed = json.loads(bench("--peers", "100", "--json", "--timing"))
assert timed["events"] > 10000 and timed["events_per_second"] > 0 and timed["resident_kib"] > 0, timed
table = bench("--peers", "100", "--limit-rounds", "10")
assert "0/1" in table and "demand 90 %" in table, table
with open("scale.svg", encoding="utf-8") as drawing:
    text = drawing.read()
assert text.startswith("<svg") and text.rstrip().endswith("</svg>") and text.count("<rect") > 6, "no drawing"
# All systems on the same swarms: each dumped path uses existing links and has the cost of its row.
os.makedirs("flows", exist_ok=True)
both = [json.loads(line) for line in bench("--peers", "50", "--seeds", "2", "--systems", "swarm,gwtf,braid", "--json", "--dump", "flows").splitlines()]
assert [row["system"] for row in both] == ["swarm", "gwtf", "braid"], both
assert both[2] == parsed[0], "braid beside others differs from braid alone"
assert both[0]["ratio"]["mean"] > both[2]["ratio"]["mean"], both
for seed in range(2):
    with open(f"flows/scale-50-seed{seed}.json", encoding="utf-8") as file:
        dump = json.load(file)
    cost = {(link["from"], link["to"]): link["cost"] for link in dump["links"]}
    sums = {name: sum(cost[hop] for path in found["paths"] for hop in zip(path, path[1:])) for name, found in dump["systems"].items()}
    assert len(dump["systems"]["braid"]["paths"]) == len(dump["systems"]["optimum"]["paths"]) > 0, sums
    assert sums["optimum"] <= sums["braid"] < 1.05 * sums["optimum"] and sums["braid"] < sums["swarm"], sums
assert "swarm" in bench("--peers", "50", "--systems", "swarm,braid"), "the table does not name systems"
for flags, word in (
    (["--systems", "petals"], "swarm"),
    (["--systems", ""], "systems"),
    (["--peers", "5"], "--peers"),
    (["--peers", "100,,200"], "--peers"),
    (["--peers", "99999"], "--peers"),
    (["--delay", "warp"], "lockstep"),
    (["--demand", "101"], "demand"),
    (["--neighbours", "1"], "neighbours"),
):
    complaint = bench(*flags, code=2)
    assert word in complaint, f"{flags}: {complaint}"
