# braid-bench views: the best flow on the links that gossip finds is near the optimum over all links; braid reaches it; two
# runs print the same.
import json
import os
import subprocess
import sys


def bench(*flags):
    done = subprocess.run([os.environ["BRAID_BENCH"], "views", *flags], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


flags = ["--relays", "40,160", "--seeds", "2", "--json", "--plot", "views.svg"]
code, rows, complaint = bench(*flags)
if code != 0:
    sys.exit(f"bench views ended with {code}: {complaint}")
assert (code, rows) == bench(*flags)[:2], "the second run differs"
assert "<svg" in open("views.svg").read()
parsed = [json.loads(line) for line in rows.splitlines()]
assert [(r["costs"], r["relays"]) for r in parsed] == [(c, n) for c in ("world", "random") for n in (40, 160)], rows
for row in parsed:
    assert row["whole"] == row["runs"] == 2 and row["over_capacity"] == 0, row
    assert row["most_neighbours"] <= 16 and row["one_sided_links"] == 0, row
    assert 1 <= row["views_over_optimum"]["worst"] <= 1.03, row
    assert 1 <= row["braid_over_optimum"]["mean"] <= 1.03, row
    assert row["views_over_optimum"]["mean"] <= row["braid_over_optimum"]["mean"], row
    assert row["gossip_messages_per_peer"]["worst"] < 1000, row
assert len({row["trace_hash"] for row in parsed}) == len(parsed), "two rows with one trace"

code, planned, complaint = bench("--relays", "40,160", "--seeds", "2", "--json", "--plan-first")
for row, plain in zip([json.loads(line) for line in planned.splitlines()], parsed):
    assert code == 0 and row["whole"] == row["runs"] == 2 and row["braid_over_optimum"]["worst"] == row["views_over_optimum"]["worst"], row
    assert row["messages_per_peer"]["mean"] < plain["messages_per_peer"]["mean"], (row, plain)

code, rows, complaint = bench("--relays", "160", "--costs", "world", "--loss", "10", "--json")
row = json.loads(rows)
assert code == 0 and row["views_over_optimum"]["count"] == 1 and row["views_over_optimum"]["worst"] <= 1.05, row

code, rows, complaint = bench("--relays", "80", "--costs", "world", "--crash", "--seeds", "2", "--json")
row = json.loads(rows)
assert code == 0 and row["whole"] + row["skipped"] == row["runs"] == 2, row
assert all(d["silent"] <= d["silent_until_whole"] <= d["peers"] for d in row["by_distance"]), row

for wrong in (["--relays", "4"], ["--costs", "cheap"], ["--links", "1"], ["--close", "17"]):
    code, rows, complaint = bench(*wrong)
    assert code == 2 and wrong[0] in complaint and rows == "", f"{wrong}: {code}, {complaint}"
