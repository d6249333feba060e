#!/usr/bin/env python3
"""A run that cannot recover ends by itself, and the last line has the reason. Cases: a gradient that stays infinite, in one process
and in a swarm after the same iteration, for any leader; a stage without relays at a request to stop; a relay too small for a
stage; a leader without joiners."""

import os
import signal
import time

from swarmlib import ENDLESS, Braid, expect, workplace, write_run

HOT = {"learning_rate": 10, "min_learning_rate": 10, "clip": 0, "warmup": 0, "betas": "[0, 0]", "weight_decay": 1}


def save_every(run, directory, iterations):
    with open(run, encoding="ascii") as file:
        lines = [line for line in file if not line.startswith("checkpoint:")]
    with open(run, "w", encoding="ascii") as file:
        file.writelines(lines + [f"checkpoint: {{dir: {directory}, every: {iterations}}}\n"])


def steps(directory):
    return sorted(name for name in os.listdir(directory) if name.startswith("step-"))


def expect_failed(process, *texts):
    """Expects code 1 and a last line with these texts; returns that line."""
    code, end = process.finish(60), process.events[-1]
    expect(code == 1 and end["event"] == "end" and end["failed"], f"code {code}, {end}")
    for text in texts:
        expect(text in end["text"], f"'{text}' is not in {end['text']}")
    return end


def divergence(place):
    """The same end for one process, for a swarm, and for a swarm with a dead leader during skipped iterations."""
    run = write_run(place, iterations=200, stages="[0, 2, 1]", data_peers=2, microbatches=2, max_skipped=12, **HOT)
    ends = []
    for name, arguments in {"solo": ("train", "--solo"), "swarm": ("up", "--relays", "2"), "killed": ("up", "--relays", "2", "--kill", "leader@iteration:8")}.items():
        saved = os.path.join(place, name)
        save_every(run, saved, 1)
        process = Braid(arguments[0], run, *arguments[1:])
        end = expect_failed(process, "the run has diverged: no gradient was finite in 12 iterations in a row")
        expect(end["reason"] == "diverged", f"{end}")
        skipped = [event["iteration"] for event in process.of("iteration") if event["skip"]]
        expect(skipped == list(range(end["iteration"] - 11, end["iteration"] + 1)), f"{name}: {skipped} were skipped, and {end}")
        expect(name != "killed" or len(process.of("killed")) == 1, "the leader was to die")
        ends.append((end["iteration"], steps(saved)))
    print(f"diverged after iteration {ends[0][0] - 12}, checkpoints {ends[0][1]}")
    expect(ends[0] == ends[1] == ends[2], f"{ends}")
    expect(ends[0][1][-1] == f"step-{ends[0][0] - 12:06}", f"the last good one is not kept: {ends}")


def stage_is_lost(place):
    """Kills all relays of a stage again and again, then sends SIGTERM."""
    run = write_run(place, iterations=ENDLESS, stages="[0, 3]", data_peers=1, name="lost.yaml")
    save_every(run, os.path.join(place, "lost"), 2)
    swarm = Braid("up", run, "--relays", "1")
    swarm.wait_for("checkpoint")
    for count in (1, 2):
        relays = [event["process"] for event in swarm.of("spawned") if event["role"].startswith("relay")]
        os.kill(relays[-1], signal.SIGKILL)
        if count == 1:
            swarm.wait_until(lambda known=len(relays): len([1 for event in swarm.of("spawned") if event["role"].startswith("relay")]) > known, "another relay")
    began = time.monotonic()
    swarm.process.terminate()
    end = expect_failed(swarm, "stage 1 had no peer left", "Resume from", "(--resume)")
    print(f"ended {time.monotonic() - began:.1f} s after SIGTERM: {end['text']}")
    expect(any("SIGKILL), most likely by the kernel" in event["text"] for event in swarm.of("note")), "the cause is not named")


def no_peer_fits(place):
    run = write_run(place, stages="[0, 3]", data_peers=1, name="nobody.yaml")
    leader = Braid("node", "--lead", "--run", run, "--listen", "127.0.0.1:0", "--wait-for-peers", "3s")
    relay = Braid("node", "--join", leader.wait_for("ready")["ticket"], "--max-memory", "100K")
    expect_failed(relay, "stage 1 needs", "--max-memory allows 100 KiB")
    expect_failed(leader, "waited 3 s for peers (--wait-for-peers): stage 1 has no peer", "needs at least")


def main():
    with workplace() as place:
        for part in (divergence, stage_is_lost, no_peer_fits):
            began = time.monotonic()
            part(place)
            print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)


main()
