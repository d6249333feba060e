# braid-bench churn: after a death or a join routing ends at the new optimum; two runs print the same.
import json
import os
import subprocess
import sys


def bench(*flags):
    done = subprocess.run([os.environ["BRAID_BENCH"], "churn", *flags], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(objective):
    """Returns the hashes of the traces."""
    flags = ["--seeds", "3", "--tests", "1,4", "--delay", "exponential", "--objective", objective, "--json"]
    code, rows, complaint = bench(*flags)
    if code != 0:
        sys.exit(f"bench churn ended with {code}: {complaint}")
    assert (code, rows) == bench(*flags)[:2], "the second run differs"
    parsed = [json.loads(line) for line in rows.splitlines()]
    assert [(r["test"], r["change"]) for r in parsed] == [
        (t, c) for t in (1, 4) for c in ("one dies", "10 % die", "one joins")
    ], rows
    for row in parsed:
        where = f"{objective}, test {row['test']}, {row['change']}"
        for key in ("whole", "optimal", "quiet"):
            assert row[key] == row["runs"] == 3, f"{where}: {key} in {row[key]} of {row['runs']}"
        assert row["over_capacity"] == 0 and row["ratio_when_whole"] >= 1, row
        assert 0 <= row["messages_until_whole"] <= row["messages"], row
    return [row["trace_hash"] for row in parsed]


hashes = check("sum") + check("worst")
assert len(set(hashes)) == len(hashes), "two rows with one trace"
for wrong in (["--tests", "5"], ["--tests", "1,"], ["--delay", "slow"], ["--seeds", "0"], ["--objective", "least"], ["--plan-first", "--objective", "worst"]):
    code, rows, complaint = bench(*wrong)
    assert code == 2 and wrong[0] in complaint and rows == "", f"{wrong}: {code}, {complaint}"
