#!/usr/bin/env python3
"""Relays move to another stage (rule J14), and are killed (kill -9) in each phase of a move: after the removal, after the admission to
the other stage, and while the state is fetched. One move is left alone. The weights are those of one process. The placement
`shuffle`, which only braid-bench accepts, moves relays without a reason."""

import os

import swarmlib
from swarmlib import ENDLESS, Braid, end_run, expect, seed_of_test, solo, workplace, write_run

PHASES = ("removed", "admitted", "fetching", "left alone")


def prepare(run):
    """Makes a stage's state several chunks long, and relays move."""
    with open(run, encoding="ascii") as file:
        text = file.read()
    with open(run, "w", encoding="ascii") as file:
        file.write(text.replace("dim: 32, layers: 3, heads: 2", "dim: 192, layers: 3, heads: 2").replace("swarm: {", "swarm: {placement: shuffle, "))
    return run


def moves_of(lead):
    return [event for event in lead.of("expelled") if "moves" in event["reason"]]


def admissions(lead, peer, after):
    """Events of that peer's admissions since an index into all events."""
    return [event for event in lead.events[after:] if event["event"] == "joined" and event["peer"] == peer]


def follow(lead, relays, phase, seen):
    """Waits for the next move, and kills the mover in that phase. Returns the mover and its older and newer stage, None: not known."""
    lead.wait_until(lambda: len(moves_of(lead)) > seen, f"move {seen + 1}")
    move = moves_of(lead)[seen]
    at = lead.events.index(move)
    mover = next(relay for relay in relays if relay.of("ready")[0]["peer"] == move["peer"])
    begun = len(mover.of("transfer"))
    if phase in ("admitted", "left alone"):
        lead.wait_until(lambda: admissions(lead, move["peer"], at), f"{move['peer']} admitted again")
    if phase == "fetching":
        mover.wait_until(lambda: len(mover.of("transfer")) > begun or admissions(lead, move["peer"], at), f"a transfer of {move['peer']}")
    if phase != "left alone":
        mover.stop()
    again = admissions(lead, move["peer"], at)
    return mover, move["stage"], again[0]["stage"] if again else None


def main():
    swarmlib.PROGRAM = os.environ["BRAID_BENCH"]
    seed = seed_of_test()
    with workplace() as directory:
        run = prepare(write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=1, stages="[0, 2, 1]", sequences=1, microbatches=4))
        here = ("--listen", "127.0.0.1:0")
        lead = Braid("node", "--lead", "--supervised", "--run", run, "--wait-relays", "5", *here, commands=True)
        ticket = lead.wait_for("ready")["ticket"]
        relays = [Braid("node", "--join", ticket, *here) for _ in range(5)]
        for relay in relays:
            relay.wait_for("ready")
        others = 0
        for i in range(len(PHASES)):
            phase = PHASES[(i + seed) % len(PHASES)]
            mover, before, after = follow(lead, relays, phase, len(moves_of(lead)))
            print(f"move {i + 1}: {phase}, from stage {before} to {after or 'none yet'}", flush=True)
            others += after not in (None, before)
            if phase == "left alone":
                continue
            relays.remove(mover)
            relays.append(Braid("node", "--join", ticket, *here))
            relays[-1].wait_for("ready")
        lead.wait_for_iterations(2)
        expect(others > 0, "no mover was admitted to another stage")
        done, weights = end_run([lead])
        alone = solo(run, done)
        expect(weights == alone, f"{done} iterations: weights {weights}, solo {alone}")
        for relay in relays:
            relay.stop()


main()
