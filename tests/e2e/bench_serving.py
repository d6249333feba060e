# braid-bench serving: two runs print the same; braid is nearest to the bound; bad flags are refused.
import json
import os
import subprocess


def bench(*flags):
    done = subprocess.run([os.environ["BRAID_BENCH"], "serving", *flags], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


flags = ("--seeds", "4", "--peers", "10", "--effort", "60", "--json")
code, rows, complaint = bench(*flags)
assert code == 0, complaint
assert bench(*flags)[1] == rows, "the second run differs"
found = {r["system"]: r for r in map(json.loads, rows.splitlines())}
assert sorted(found) == ["braid", "helix", "nesa", "nesa-fixed", "petals"], rows
assert found["braid"]["served"] == found["braid"]["sessions"] == 40, rows
for system, row in found.items():
    assert row["ratio"]["count"] == 0 or row["ratio"]["mean"] >= found["braid"]["ratio"]["mean"] > 0.999, rows
code, rows, complaint = bench("--part", "table2", "--effort", "20", "--json")
assert code == 0 and len(rows.splitlines()) == 144, complaint
fast = [r for r in map(json.loads, rows.splitlines()) if r["system"] == "braid"]
assert all(r["served"] == 1 and r["steps_per_second"] > 0 for r in fast), rows
code, table, complaint = bench("--seeds", "1", "--peers", "6", "--effort", "5", "--details")
assert code == 0 and table.startswith("seed 0: 6 peers") and "braid" in table, table + complaint
for bad in (["--part", "table3"], ["--peers", "61"], ["--layers", "0"], ["--seeds", "0"], ["--effort", "x"]):
    code, _, complaint = bench(*bad)
    assert code == 2 and bad[0] in complaint, (bad, code, complaint)
