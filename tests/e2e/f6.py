# tools/f6: a swarm of processes under kill -9 prints the losses of one process, to the last digit.
import json
import os
import subprocess
import sys

command = [os.path.join(os.environ["SOURCE"], "tools", "f6"), os.environ["BRAID"], "--iterations", "12", "--percent", "15", "--routings", "braid", "--json", "--plot", "f6.svg"]
done = subprocess.run(command, capture_output=True, text=True)
if done.returncode != 0:
    sys.exit(f"f6 ended with {done.returncode}: {done.stdout}{done.stderr}")
solo, swarm = map(json.loads, done.stdout.splitlines())
assert len(solo["losses"]) == 12 and solo["losses"] == swarm["losses"] and solo["weights"] == swarm["weights"], done.stdout
assert solo["losses"][-1] < solo["losses"][0] and solo["tokens"] == swarm["tokens"] > 0, done.stdout
assert swarm["killed"] > 0, "nobody was killed"
assert open("f6.svg", encoding="utf-8").read().count("<polyline") == 2
