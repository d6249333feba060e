#!/usr/bin/env python3
"""The only voter is killed (kill -9) and restarted with the same command line. The run continues from its last checkpoint, once
with the waiting relays and once with others, and ends with the weights of one process. A log of another run, of another peer or
of a complete run is refused with the remedy."""

import os

from swarmlib import ENDLESS, Braid, expect, expect_clean_exits, seed_of_test, solo, workplace, write_run


def run_with_checkpoints(directory, seed, name):
    run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=1, stages="[0, 2, 1]", name=f"{name}.yaml")
    with open(run, "a", encoding="ascii") as file:
        file.write(f"checkpoint: {{dir: {os.path.join(directory, 'saved-' + name)}, every: 3}}\n")
    return run


def relays_join(ticket):
    return [Braid("node", "--join", ticket, "--listen", "127.0.0.1:0") for _ in range(2)]


def refused(words, *arguments):
    node = Braid("node", *arguments)
    code = node.finish()
    expect(code != 0 and any(words in line for line in node.complaints), f"{arguments} ended with {code} and not with '{words}': {node.complaints}")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run, log = run_with_checkpoints(directory, seed, "swarm"), os.path.join(directory, "log")
        line = ("--lead", "--run", run, "--log", log, "--voters", "1", "--wait-relays", "2", "--listen", "127.0.0.1:0")

        lead = Braid("node", *line)
        ticket = lead.wait_for("ready")["ticket"]
        refused("is in use", *line)
        relays = relays_join(ticket)
        lead.wait_for("iteration", iteration=5)
        lead.stop()

        lead = Braid("node", *line)
        back = lead.wait_for("rolled_back")
        print(f"the leader came back; the run went back to {back['iteration']}, by {back['total']}")
        expect(back["iteration"] >= 3 and back["iteration"] % 3 == 0 and back["total"] <= 3, f"not to the last checkpoint: {back}")
        lead.wait_for("iteration", iteration=back["iteration"] + 2)
        for peer in (lead, *relays):
            peer.stop()
        done = lead.of("iteration")[-1]["iteration"]

        lead = Braid("node", *line)
        relays = relays_join(lead.wait_for("ready")["ticket"])
        expect("continuing the run of the log" in lead.wait_for("note")["text"], "it is not said that the run goes on")
        ended, weights = lead.end()
        alone = solo(run_with_checkpoints(directory, seed, "solo"), ended)
        expect(weights == alone, f"{ended} iterations: weights {weights}, solo {alone}")
        expect_clean_exits(relays)
        first = lead.of("iteration")[0]["iteration"]
        expect(done - 3 < first <= done + 2, f"after {done} it went on with {first}")

        saved = os.path.join(directory, "saved-swarm")
        os.rename(saved, saved + ".elsewhere")
        refused(f"its weights are not in {saved} any more; restore them, or start the run again with --anew", *line)
        os.rename(saved + ".elsewhere", saved)
        refused("is complete", *line)
        refused("--identity", *line, "--identity", os.path.join(directory, "other.key"))
        other = run_with_checkpoints(directory, seed + 1, "other")
        refused("is of another run", *(other if part == run else part for part in line))
        lead = Braid("node", *line, "--anew")
        relays = relays_join(lead.wait_for("ready")["ticket"])
        lead.wait_for("iteration", iteration=1)
        expect(lead.of("iteration")[0]["iteration"] == 1 and os.path.exists(log + ".old"), "--anew does not begin the run again")
        for peer in (lead, *relays):
            peer.stop()


main()
