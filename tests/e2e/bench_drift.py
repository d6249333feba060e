# braid bench drift: costs that drift are followed closely, with fewer moves than the optimum makes; the same twice.
import json
import os
import subprocess
import sys


def bench(*flags):
    done = subprocess.run([os.environ["BRAID"], "bench", "drift", *flags], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


flags = ["--seeds", "1", "--lasts", "1m", "--json"]
code, rows, complaint = bench(*flags)
if code != 0:
    sys.exit(f"bench drift ended with {code}: {complaint}")
assert (code, rows) == bench(*flags)[:2], "the second run differs"
parsed = {(r["test"], r["told"]): r for r in map(json.loads, rows.splitlines())}
assert list(parsed) == [(t, told) for t in (1, 3) for told in ("all", "smooth", "band")], rows
for (test, told), row in parsed.items():
    where = f"test {test}, {told}: {row}"
    assert row["over_capacity"] == 0, where
    assert len(row["braid"]["ratio"]) == 6 and min(row["braid"]["ratio"]) >= 1, where
    assert row["optimum"]["ratio_worst"] == 1, where
    if told == "all":
        continue
    assert row["braid"]["ratio_mean"] <= 1.02, where
    assert row["braid"]["moved_per_minute"] <= row["optimum"]["moved_per_minute"], where
for test in (1, 3):
    band, smooth = parsed[test, "band"], parsed[test, "smooth"]
    for key in ("told_per_link_and_minute", "messages_per_peer_and_minute"):
        assert band[key] < smooth[key] / 3, f"test {test}: a band saves too few {key}"
assert len({row["trace_hash"] for row in parsed.values()}) == len(parsed), "two rows with one trace"
for wrong in (["--tests", "5"], ["--told", "some"], ["--told", ""], ["--delay", "slow"], ["--lasts", "0s"]):
    code, rows, complaint = bench(*wrong)
    assert code == 2 and wrong[0] in complaint and rows == "", f"{wrong}: {code}, {complaint}"
