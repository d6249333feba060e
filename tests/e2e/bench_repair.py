# braid-bench repair: six phases are measured, a reset link is detected sooner than silence, and a higher phi detects later with
# fewer false alarms; two runs print the same.
import json
import os
import subprocess
import sys


def bench(*flags):
    done = subprocess.run([os.environ["BRAID_BENCH"], "repair", *flags], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


flags = ["--seeds", "4", "--hours", "2", "--json"]
code, rows, complaint = bench(*flags)
if code != 0:
    sys.exit(f"bench repair ended with {code}: {complaint}")
assert (code, rows) == bench(*flags, "--plot", "repair.svg")[:2], "the second run differs"
assert open("repair.svg", encoding="utf-8").read().endswith("</svg>\n")
parsed = [json.loads(row) for row in rows.splitlines()]
repairs = {(r["death"], r["phase"]): r for r in parsed if r["experiment"] == "repair"}
assert len(repairs) == 16, rows
for phase in ("forward", "backward", "aggregation", "owner", "reduction", "leader"):
    reset, silent = repairs["connections reset", phase], repairs["without a word", phase]
    assert reset["lost"] > 0 and silent["lost"] > 0, f"nothing was lost in {phase}"
    assert reset["median_s"] < silent["median_s"], f"{phase}: {reset} {silent}"
    assert reset["median_s"] <= reset["p99_s"] and 0 < reset["median_units"] <= reset["p99_units"], reset
detection = {(r["line"], r["rule"]): r for r in parsed if r["experiment"] == "detection"}
assert len(detection) == 36, rows
phis = [detection["steady", f"phi {phi}"]["mean_s"] for phi in (1, 2, 3, 4, 6, 8, 12)]
assert phis == sorted(phis) and phis[0] < phis[-1], phis
assert detection["pauses", "silence 2 s"]["false_alarms_an_hour"] > 5 > detection["pauses", "phi 4"]["false_alarms_an_hour"], detection
for line in ("steady", "heavy-tailed", "pauses"):
    assert detection[line, "expelled"]["false_alarms_an_hour"] <= 1, detection
assert detection["steady", "expelled"]["p99_s"] < 2 < detection["pauses", "expelled"]["mean_s"], detection
for phase in ("sent", "forward", "backward", "committed", "aggregation", "reduction"):
    assert repairs["without a word", phase]["median_s"] < 4, repairs
assert bench("--seeds", "0")[0] == 2
