#!/usr/bin/env python3
"""Every way of stopping saves: Ctrl-C to a process group, SIGTERM to a leader with relays, SIGHUP under nohup, a closed reader of
standard output, a second request, and `braid up` killed. Each last line says that the run was stopped early; code 0 means an
orderly end."""

import os
import select
import signal
import subprocess
import time

from loadlib import scaled
from swarmlib import BOUND, ENDLESS, PROGRAM, Braid, expect, seed_of_test, solo, workplace, write_run


def newest(directory):
    """Returns the version of the checkpoint that `latest` names, or None."""
    link = os.path.join(directory, "checkpoint", "latest")
    return int(os.path.basename(os.path.realpath(link)).split("-")[1]) if os.path.lexists(link) else None


def expect_stopped(braid, directory, *reasons):
    code = braid.finish(60)
    end = braid.events[-1]
    expect(code == 0 and end["event"] == "end" and not end["failed"], f"ended with {code}, {end}")
    expect(end["stopped"] and end["reason"] in reasons and end["of"] == ENDLESS, f"the last line does not say how it was stopped: {end}")
    expect(newest(directory) == end["iteration"] > 0, f"the newest checkpoint is {newest(directory)}, the end is {end}")
    return end


def up_and_its_children(run, directory):
    """Ctrl-C, as a terminal and systemd deliver it: to all processes at the same time, twice within the window of one request."""
    swarm = Braid("up", run, "--relays", "2", inside=["setsid"])
    swarm.wait_for("iteration", iteration=2)
    everyone = [swarm.process.pid, *(event["process"] for event in swarm.of("spawned"))]
    for _ in range(2):
        for process in everyone:
            os.kill(process, signal.SIGINT)
            os.kill(process, signal.SIGTERM)
    expect_stopped(swarm, directory, "SIGINT", "SIGTERM")  # the signal that arrived first


def up_that_is_killed(run, directory):
    """Its children save the run and end."""
    before = newest(directory)
    swarm = Braid("up", run, "--relays", "2", "--resume", os.path.join(directory, "checkpoint"))
    swarm.wait_for("iteration", iteration=before + 2)
    children = [os.pidfd_open(event["process"]) for event in swarm.of("spawned")]
    swarm.process.kill()
    for child in children:
        expect(has_ended(child), "a child of a dead parent still runs after 30 s")
    expect(newest(directory) >= before + 2, f"the children saved {newest(directory)}")


def has_ended(descriptor):
    ready, _, _ = select.select([descriptor], [], [], 30)
    os.close(descriptor)
    return bool(ready)


def leader_with_two_relays(run, directory):
    lead = Braid("node", "--listen", "127.0.0.1:0", "--lead", "--run", run, "--wait-relays", "2")
    ticket = lead.wait_for("ready")["ticket"]
    relays = [Braid("node", "--listen", "127.0.0.1:0", "--join", ticket) for _ in range(2)]
    lead.wait_for("iteration", iteration=2)
    lead.process.terminate()
    end = expect_stopped(lead, directory, "SIGTERM")
    expect(all(relay.finish(60) == 0 for relay in relays), "a relay of a run that was stopped in order failed")
    expect(end["weights"] == solo(run, end["iteration"], "--save", os.path.join(directory, "other")), "other weights than solo's")


def train_under_nohup(run, directory):
    braid = Braid("train", "--solo", run, inside=["nohup"])
    braid.wait_for("iteration", iteration=2)
    braid.process.send_signal(signal.SIGHUP)
    braid.wait_for_iterations()
    braid.process.terminate()
    expect_stopped(braid, directory, "SIGTERM")


def output_that_is_not_read(run, directory):
    """The reader closes the pipe; SIGUSR1 saves; kill -9 then loses nothing of that."""
    process = subprocess.Popen([*BOUND, PROGRAM, "train", "--solo", run], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in process.stdout:
        if line.startswith(b"iteration 2/"):
            break
    process.stdout.close()
    before = newest(directory)
    process.send_signal(signal.SIGUSR1)
    limit = time.monotonic() + scaled(30)
    while newest(directory) == before and time.monotonic() < limit:
        expect(process.poll() is None, f"it ended with {process.returncode}")
        time.sleep(0.02)
    expect(newest(directory) != before, "SIGUSR1 saved nothing")
    process.kill()
    process.wait()
    kept = newest(directory)
    resumed = Braid("train", "--solo", run, "--resume", os.path.join(directory, "checkpoint"))
    expect(resumed.wait_for("started")["iteration"] == kept, f"it does not go on from {kept}")
    resumed.process.terminate()
    resumed.finish(60)


def second_request(directory):
    """A second request during the orderly end: the process ends at once, with code 1."""
    slow = write_run(directory, iterations=ENDLESS, microbatches=256, sequences=512, stages="[3]", data_peers=1, name="slow.yaml")
    for _ in range(5):  # again if a busy machine has handled the first request by then
        braid = Braid("train", "--solo", slow)
        braid.wait_for("started")
        time.sleep(1)  # reaches the first iteration, which takes 10 s or more
        first = time.monotonic()
        braid.process.terminate()
        braid.wait_for("note", text="repeat the signal to end at once")
        time.sleep(0.5)
        braid.process.terminate()
        second = time.monotonic()
        if second - first < scaled(4):
            expect(braid.finish(30) == 1, f"a second request is no success: {braid.events[-1]}")
            expect(time.monotonic() - second < scaled(10), "the second request did not end it at once")
            return
        braid.stop()
    raise SystemExit("FAILED: this machine is too busy for a second request within 4 s")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=1)
        up_and_its_children(run, directory)
        up_that_is_killed(run, directory)
    for situation in (leader_with_two_relays, train_under_nohup, output_that_is_not_read):
        with workplace() as directory:
            situation(write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=1), directory)
    with workplace() as directory:
        second_request(directory)


main()
