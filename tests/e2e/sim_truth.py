"""Does the simulator tell the truth? A real swarm of 8 processes on this machine measures what its peers cost (braid up
--measure); braid sim must then say how long its iterations took, within 15 %, with and without a crash: in the mean, for means are what is measured, but for the iteration of
the crash.

Whoever else uses this machine changes both figures of a pair alike: the measured share of the processors is of the very
iterations that are compared, and each of them counts with the share that it had itself.
TRUTH_PAIRS=5 takes so many pairs of each kind and prints them (docs/results/truth.md)."""

import json
import os
import statistics
import subprocess
import tempfile
import time

from swarmlib import PROGRAM, Braid, expect, seed_of_test, write_text

BOUND = 0.15
WARM_UP = 5  # MEASURE_WARM_UP of src/node/measure.h
KILL_AT = 8
PAIRS = int(os.environ.get("TRUTH_PAIRS", "1"))

RUN = """seed: 1
stages: [0, 1, 1, 1]
model: {{dim: 128, layers: 3, heads: 4, context: 128}}
data: {{text: {text}}}
train: {{iterations: 16, microbatches: 12, sequences: 2}}
eval: {{every: 0}}
swarm: {{data_peers: 2}}
"""


class Timed(Braid):
    """Events get the time at which they came."""

    def _read_events(self):
        for line in self.process.stdout:
            with self.changed:
                self.events.append({**json.loads(line), "at": time.monotonic()})
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()


def real(run, scenario, kill):
    arguments = ["up", run, "--relays", "6", "--measure", scenario]
    swarm = Timed(*arguments, *(["--kill", f"relay2@iteration:{KILL_AT}"] if kill else []))
    swarm.weights()
    # the leader's own clock, not the moment at which we read its words
    times = [event["tokens"] / event["tokens_per_second"] for event in swarm.of("iteration")]
    if not kill:
        return times, None
    killed = swarm.of("killed")
    expect(len(killed) == 1, f"the relay was killed once: {killed}")
    before = [event["at"] for event in swarm.of("iteration") if event["at"] <= killed[0]["at"]]
    return times, (len(before), (killed[0]["at"] - before[-1]) / statistics.median(times[WARM_UP:]))


def simulate(scenario):
    done = subprocess.run([PROGRAM, "sim", scenario, "--json", "--no-plan-join", "--check"], capture_output=True, text=True)
    expect(done.returncode == 0, f"braid sim {scenario}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["iterations"]


def with_kill(scenario, when):
    """The same relay dies in the same iteration, after the same share of an iteration's time."""
    iteration, share = when
    one = simulate(scenario)[iteration]
    at = one["start_s"] + share * (one["end_s"] - one["start_s"])
    with open("kill.txt", "w", encoding="ascii") as file:
        file.write(f"{at:.4f} relay2 kill\n")
    path = "killed.yaml"
    with open(scenario, encoding="ascii") as file, open(path, "w", encoding="ascii") as out:
        out.write(file.read() + "churn: {trace: kill.txt}\n")
    return path


def cores_measured(scenario):
    """What the simulation has, and what there was in each iteration."""
    with open(scenario, encoding="ascii") as file:
        lines = file.read().splitlines()
    each = next(line.split(":")[1].split() for line in lines if line.startswith("# Cores of each"))
    return float(next(line.split("cores: ")[1].split("}")[0] for line in lines if line.startswith("machines"))), [float(cores) for cores in each]


def pair(run, kill):
    times, when = real(run, "measured.yaml", kill)
    cores, had = cores_measured("measured.yaml")
    expect(len(had) == len(times) - WARM_UP, f"{len(had)} shares of the processors, {len(times)} iterations")
    iterations = simulate(with_kill("measured.yaml", when) if kill else "measured.yaml")
    simulated = [one["end_s"] - one["start_s"] for one in iterations]
    expect(len(simulated) == len(times), f"{len(times)} iterations, {len(simulated)} simulated ones")
    expect(not kill or sum(one["crashes"] for one in iterations) == 1, "one crash is simulated")
    a, b = statistics.median(times[WARM_UP:]), statistics.median(simulated[WARM_UP:])
    counted = [i for i in range(WARM_UP, len(times)) if not kill or i != when[0]]
    at_share = [times[i] * had[i - WARM_UP] / cores for i in counted]
    error = statistics.mean(simulated[i] for i in counted) / statistics.mean(at_share) - 1
    text = f"| {'one relay dies' if kill else 'nobody dies'} | {a:.3f} | {b:.3f} | {100 * error:+.1f} % "
    text += f"| {statistics.mean(times[WARM_UP:]):.3f} | {statistics.mean(simulated[WARM_UP:]):.3f} "
    if kill:
        text += f"| {times[when[0]]:.3f} | {simulated[when[0]]:.3f} |"
    else:
        text += "| | |"
    print(f"{text} {cores} |", flush=True)
    return error


def main():
    seed = seed_of_test()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        write_text("text.txt", seed)
        with open("run.yaml", "w", encoding="ascii") as file:
            file.write(RUN.format(text=os.path.join(directory, "text.txt")))
        print("| | real, median s | simulated | | real, mean s | simulated | real, that iteration | simulated | cores |")
        for kill in (False, True):
            errors = [pair("run.yaml", kill) for _ in range(PAIRS)]
            expect(max(abs(error) for error in errors) <= BOUND, f"not within {BOUND:.0%}: {errors}")


main()
