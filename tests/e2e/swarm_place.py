#!/usr/bin/env python3
"""A relay behind a slow line takes part in all stages, one behind a fast line in its own; both say why. The weights are those of
one process."""

import os
import sys

import linelib
from swarmlib import Braid, expect, solo, workplace

SLOW, FAST = 20, 2000  # Mb/s
ENDLESS = 100000


def places(directory, rate, expected):
    run = linelib.write_lines_run(directory, 1, ENDLESS, 4)
    with linelib.Lines(4, lambda a, b: rate if 3 in (a, b) else FAST) as lines:

        def node(peer, *arguments):
            return Braid("node", "--listen", f"{linelib.address(peer)}:4711", *arguments, inside=lines.inside(peer))

        leader = node(0, "--lead", "--run", run, "--voters", "1", "--wait-relays", "3")
        ticket = leader.wait_for("ready")["ticket"]
        relays = [node(peer, "--join", ticket, "--no-whole") for peer in (1, 2)]
        asked = node(3, "--join", ticket)
        try:
            note = asked.wait_for("note", seconds=120, text="placed")["text"]
            expect(expected in note, f"{rate} Mb/s: {note}")
            print(f"{rate} Mb/s: {note}")
            leader.wait_for_iterations(2)
            leader.interrupt()
            weights = leader.weights()
            expect(weights == solo(run, leader.events[-1]["iteration"]), "the weights are not those of one process")
        finally:
            for peer in (leader, *relays, asked):
                peer.stop()


def main():
    linelib.enter()
    with workplace() as directory:
        places(directory, SLOW, "as a whole-model peer, in the stages 1 to 2")
        places(directory, FAST, "alone: a microbatch takes")


os.environ.setdefault("BRAID", sys.argv[1] if len(sys.argv) > 1 else "build/release/braid")
main()
