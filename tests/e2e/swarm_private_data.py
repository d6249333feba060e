#!/usr/bin/env python3
"""Each data peer has a text of its own. One of them is killed (kill -9) and restarted with its identity: the run waits, names the
peer, and the weights are those of one process with all texts. If it does not return, a request to stop saves the weights before
that iteration. An elastic run continues without the peer. `braid up` restarts it by itself."""

import os

from swarmlib import ENDLESS, Braid, end_run, expect, expect_clean_exits, seed_of_test, solo, workplace, write_run, write_text


def describe(directory, seed, train=""):
    texts = [os.path.join(directory, f"own{i}.txt") for i in range(3)]
    for i, text in enumerate(texts):
        write_text(text, seed + i)
    run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2, data_peers=3)
    with open(run, encoding="ascii") as file:
        lines = file.read().splitlines()
    paths = {}
    for i in range(4):
        own = f"[{', '.join(texts)}]" if i == 3 else texts[i]
        paths[i] = os.path.join(directory, f"run{i}.yaml")
        with open(paths[i], "w", encoding="ascii") as file:
            for line in lines:
                file.write((f"data: {{text: {own}, private: 3}}" if line.startswith("data:") else line.replace("train: {", "train: {" + train)) + "\n")
    return paths


def check_restart_by_up(run, victim="data2", voters=1):
    """Checks that braid up restarts a data peer before an elastic run leaves out any microbatch."""
    up = Braid("up", run, "--relays", "3", "--voters", str(voters), "--kill", f"{victim}@iteration:5")
    up.wait_for("back")
    done, weights = up.end()
    alone = solo(run, done)
    expect(weights == alone, f"braid up, {done} iterations: {weights} is not {alone}")
    expect(len(up.of("killed")) == 1 and up.of("spawned")[-1]["role"] == ("data1" if victim == "leader" else victim), f"not one kill and one restart: {up.events}")
    told = up.of("iteration")
    expect([event["iteration"] for event in told] == list(range(1, done + 1)) and not any(event["left_out"] for event in told), "something was left out")
    gone, back = up.of("awaited"), up.of("back")
    expect(len(gone) == 1 and len(back) == 1, f"awaited and back once each: {up.events}")
    expect(gone[0]["peer"] == back[0]["peer"] == up.of("killed")[0]["peer"], "another peer came back")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        runs = describe(directory, seed)
        check_restart_by_up(runs[3])

        def node(*arguments):
            return Braid("node", "--listen", "127.0.0.1:0", *arguments)

        def data(share, run, *arguments):
            own = ("--share", str(share), "--run", runs[run], "--identity", os.path.join(directory, f"key{share}"))
            return Braid("node", "--listen", "127.0.0.1:0", "--supervised", *own, *arguments, commands=True)

        founder = (1, 0, "--lead", "--wait-relays", "4", "--log", os.path.join(directory, "log"))
        lead = data(*founder)
        ticket = lead.wait_for("ready")["ticket"]
        own = [data(2, 1, "--data", "--join", ticket), data(3, 2, "--data", "--join", ticket)]
        relays = [node("--join", ticket) for _ in range(4)]
        own[1].wait_for("iteration", iteration=5)
        own[1].process.kill()
        gone = lead.wait_for("awaited")
        expect(gone["microbatches"] == 2, f"awaited: {gone}")
        relays[0].wait_for("awaited", peer=gone["peer"])
        done = len(lead.of("iteration"))

        stranger = node("--data", "--share", "3", "--run", runs[2], "--identity", os.path.join(directory, "key4"), "--join", ticket)
        expect("belongs to another peer" in stranger.wait_for("refused")["text"], "who claims another's share is not told so")
        stranger.finish()
        other = data(3, 1, "--data", "--join", ticket)
        expect("another text" in other.wait_for("refused")["text"], "who comes back with another text is not told so")
        other.finish()
        expect(len(lead.of("iteration")) <= done + 1, "the run went on without it")

        own[1] = data(3, 2, "--data", "--join", ticket)
        back = lead.wait_for("back", peer=gone["peer"])
        lead.wait_for_iterations()
        own.pop().process.kill()  # for good: the run can be ended nevertheless
        lead.wait_for("awaited", iteration=len(lead.of("iteration")))
        done, weights = end_run([lead, *own])
        print(f"{gone['peer']} was awaited for {back['seconds']:.1f} s, {done} iterations")
        unfinished = lead.of("unfinished")
        expect([(event["peer"], event["iteration"]) for event in unfinished] == [(gone["peer"], done)], f"unfinished: {unfinished}")
        expect(done == len(lead.of("iteration")), "more or less is kept than was learnt")
        again = data(*founder)
        why = f"is over, after iteration {done}"
        expect(again.finish() != 0 and why in "".join(again.complaints), f"{why}: {again.complaints}")
        expect_clean_exits(relays)
        alone = solo(runs[3], done)
        expect(weights == alone, f"{done} iterations: {weights} is not {alone}")

        elastic = describe(directory, seed, "batches: elastic, ")[3]
        check_restart_by_up(elastic)
        check_restart_by_up(elastic, "leader", voters=3)
        runs = describe(directory, seed, "batches: elastic, patience: 1, ")
        lead = data(1, 0, "--lead", "--wait-relays", "3")
        ticket = lead.wait_for("ready")["ticket"]
        own = [data(2, 1, "--data", "--join", ticket), data(3, 2, "--data", "--join", ticket)]
        relays = [node("--join", ticket) for _ in range(3)]
        own[0].wait_for("iteration", iteration=5)
        own[0].process.kill()
        gone = lead.wait_for("awaited")
        expect(gone["seconds"] == 1, "nobody is told how long is waited")
        lead.wait_for("iteration", left_out=3)
        lead.wait_for_iterations()
        end_run([lead, own[1]])
        before = [event["left_out"] for event in lead.events[:lead.events.index(gone)] if event["event"] == "iteration"]
        left_out = [event["left_out"] for event in lead.of("iteration")]
        print(f"left out: {left_out}, {len(before)} of these before it was awaited")
        expect(len(before) >= 4 and set(before) == {0} and left_out[-1] == 3, "what is left out, and when")
        expect(all(event["microbatches"] + event["left_out"] == 8 for event in lead.of("iteration")), "some are neither counted nor left out")
        expect_clean_exits(relays)


main()
