# braid-bench keep: two runs print the same; standbys lose least at equal traffic; bad flags are refused.
import json
import os
import subprocess


def bench(*flags):
    done = subprocess.run([os.environ["BRAID_BENCH"], "keep", *flags], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


code, rows, complaint = bench("--seeds", "1000", "--seconds", "10,1000", "--json")
assert code == 0, complaint
assert bench("--seeds", "1000", "--seconds", "10,1000", "--json")[1] == rows, "the second run differs"
found = {(r["iteration_s"], r["way"]): r for r in map(json.loads, rows.splitlines())}
assert len(found) == 6, rows
assert found[1000, "shadow"]["lost_s"]["mean"] < found[1000, "code"]["lost_s"]["mean"] < found[1000, "copy"]["lost_s"]["mean"], rows
assert found[10, "shadow"]["went_back"] > 10 * found[1000, "shadow"]["went_back"] > 0, rows
code, table, complaint = bench("--seeds", "10", "--whole-share")
assert code == 0 and len(table.splitlines()) == 15, table + complaint
for flags in (["--spare", "5"], ["--seconds", "0"], ["--seconds", "1,,2"], ["--seeds", "0"], ["--parameters", "x"]):
    code, _, complaint = bench(*flags)
    assert code == 2 and flags[0] in complaint, (flags, code, complaint)
