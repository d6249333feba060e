#!/usr/bin/env python3
"""Ctrl-C finishes the iteration and saves; one process, and a swarm of another size, continue from
there to the weights of an uninterrupted run."""

import os
import shutil

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run


def notes_of_another_run(braid):
    return [event for event in braid.of("note") if "this checkpoint is of another run (" in event["text"]]


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, checkpoint=True)
        kept = os.path.join(directory, "checkpoint")

        swarm = Braid("up", run, "--relays", "6")
        swarm.wait_for("iteration", iteration=7)
        swarm.interrupt()
        code = swarm.finish(60)
        end = swarm.events[-1]
        expect(code == 0 and end["event"] == "end" and not end.get("failed"), f"the drain ended with {code}, {end}")
        done = end["iteration"]
        expect(done >= 7, f"drained at iteration {done}")
        print(f"drained at iteration {done}")

        saved = os.path.join(directory, "saved")
        shutil.copytree(kept, saved, symlinks=True)
        shutil.rmtree(kept)
        swarm = Braid("up", run, "--relays", "3", "--resume", saved)
        last, weights = swarm.end()
        whole = solo(run, last, "--save", os.path.join(directory, "whole"))
        resumed = solo(run, last, "--resume", saved, "--save", os.path.join(directory, "resumed"))
        expect(resumed == whole, f"resumed by one process: {resumed} is not {whole}")
        expect(swarm.of("iteration")[0]["iteration"] == done + 1, "the swarm did not go on where the other had stopped")
        expect(weights == whole, f"resumed by another swarm: {weights} is not {whole}")
        expect(not notes_of_another_run(swarm), "its own checkpoint is taken for another run's")

        other = write_run(directory, seed=seed + 1, iterations=done + 2, name="other.yaml")
        for arguments in (["up", other, "--relays", "3"], ["train", "--solo", other]):
            braid = Braid(*arguments, "--resume", saved)
            braid.weights()
            expect(len(notes_of_another_run(braid)) == 1, f"{arguments} does not say that the checkpoint is another run's")


main()
