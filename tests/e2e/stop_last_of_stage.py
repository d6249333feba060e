#!/usr/bin/env python3
"""Both relays of a stage are asked to leave at once. They say why they stay, and leave when the leader has a checkpoint of their
stage. The run continues from it with a third relay, with the bits of one process. SIGUSR1 at the leader saves; a relay names the
leader instead. In a run without checkpoints the last relay of a stage waits until its limit. A truncated text ends the run
with the newest state saved."""

import os
import signal

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run


def begin(run, relays, *flags):
    lead = Braid("node", "--listen", "127.0.0.1:0", "--lead", "--run", run, "--wait-relays", str(relays))
    ticket = lead.wait_for("ready")["ticket"]
    return lead, ticket, [Braid("node", "--listen", "127.0.0.1:0", "--join", ticket, *flags) for _ in range(relays)]


def said(braid, words):
    return [event for event in braid.of("note") if words in event["text"]]


def last_relays_leave(directory, seed):
    run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=1)
    lead, ticket, relays = begin(run, 2)
    lead.wait_for("iteration", iteration=3)
    for relay in relays:
        relay.process.terminate()
    for relay in relays:
        expect(relay.finish(60) == 0 and relay.events[-1]["stopped"], f"a relay that was to leave did not: {relay.events[-1]}")
    lead.wait_until(lambda: lead.of("checkpoint"), "a checkpoint for those who leave")
    kept = lead.of("checkpoint")[-1]["iteration"]
    expect(any(said(relay, "no other peer has the state of stage 1") for relay in relays), "none of them says why it stays")
    expect(not any(event["iteration"] > kept for event in lead.of("iteration")), "an iteration was made that is not saved")
    relay = Braid("node", "--listen", "127.0.0.1:0", "--join", ticket)
    lead.wait_for("iteration", iteration=kept + 2)
    back = lead.wait_for("rolled_back")
    expect(back["iteration"] == kept and back["total"] == 0, f"{back['total']} iterations are computed again, {kept} were saved")
    relay.process.send_signal(signal.SIGUSR1)
    relay.wait_for("note", text="only the leader can save the run")
    lead.process.send_signal(signal.SIGUSR1)
    lead.wait_until(lambda: lead.of("checkpoint")[-1]["iteration"] > kept, "a checkpoint on request")
    done, weights = lead.end()
    expect(relay.finish(60) == 0, "the third relay failed")
    expect(weights == solo(run, done, "--save", os.path.join(directory, "solo")), "other weights than solo's")


def one_of_each_stage(directory, seed):
    """Two stages of one relay each, both of which vote: the next iteration must not be decided between the checkpoint and the departure."""
    run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 1, 2]", data_peers=1)
    lead, _, relays = begin(run, 2)
    lead.wait_for("iteration", iteration=5)
    lead.wait_for("iteration", iteration=lead.of("iteration")[-1]["iteration"] + 5)
    for relay in relays:
        relay.process.terminate()
    for relay in relays:
        expect(relay.finish(8) == 0 and relay.events[-1]["stopped"], f"a relay that was to leave did not: {relay.events[-1]}")
    lead.wait_until(lambda: lead.of("rolled_back"), "the news that a stage has no peer")
    kept = lead.of("checkpoint")[-1]["iteration"]
    expect(not any(event["iteration"] > kept for event in lead.of("iteration")), "an iteration was made that is not saved")
    expect(all(event["total"] == 0 for event in lead.of("rolled_back")), "iterations are to be computed again")
    lead.stop()


def nothing_is_saved(directory, seed):
    run = write_run(directory, seed=seed, iterations=ENDLESS, stages="[0, 3]", data_peers=1)
    lead, _, (relay,) = begin(run, 1, "--stop-within", "2s")
    lead.wait_for("iteration", iteration=2)
    relay.process.terminate()
    expect(relay.finish(30) == 1, "a limit that is reached is a failure")
    why = "".join(relay.complaints)
    expect("did not end within 2 s" in why and "state of stage 1" in why, f"it says {why}")
    lead.process.send_signal(signal.SIGUSR1)
    lead.wait_for("note", text="no checkpoint.dir")
    lead.stop()


def relay_of_up(directory, seed):
    """SIGTERM to one process of `braid up`: that relay leaves, another one is started, and no iteration is repeated."""
    run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=1)
    swarm = Braid("up", run, "--relays", "1")
    swarm.wait_for("iteration", iteration=2)
    os.kill(swarm.wait_for("spawned", role="relay1")["process"], signal.SIGTERM)
    kept = swarm.wait_for("checkpoint")["iteration"]
    expect(swarm.wait_for("rolled_back")["total"] == 0, "iterations are computed again")
    swarm.wait_for("iteration", iteration=kept + 1)
    swarm.interrupt()
    expect(swarm.finish(60) == 0 and not swarm.of("expelled"), f"it ended with {swarm.events[-1]}")


def leader_of_up(directory, seed):
    """SIGTERM to the leader of `braid up` alone ends the run: `braid up` says that it was stopped, not that it is done."""
    run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=1)
    swarm = Braid("up", run, "--relays", "1")
    swarm.wait_for("iteration", iteration=2)
    os.kill(swarm.wait_for("spawned", role="leader")["process"], signal.SIGTERM)
    code = swarm.finish(60)
    end = swarm.events[-1]
    expect(code == 0 and end["stopped"] and end["reason"] == "SIGTERM" and end["path"], f"it ended with {code}, {end}")


def text_is_cut(directory, seed):
    run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=1, text_seed=9)
    swarm = Braid("up", run, "--relays", "2")
    swarm.wait_for("iteration", iteration=3)
    os.truncate(os.path.join(directory, "text9.txt"), 0)
    code = swarm.finish(60)
    end = swarm.events[-1]
    expect(code == 1 and end["failed"] and "is not what the run began with any more" in end["text"], f"ended with {code}, {end}")
    kept = os.path.realpath(os.path.join(directory, "checkpoint", "latest"))
    expect(end["path"] and int(kept.split("-")[-1]) == end["iteration"] >= 3, f"{kept} is the newest checkpoint, and the end is {end}")


def last_data_peer(directory, seed):
    """The leader has died, and the data peer that leads since is asked to leave: without it the run cannot go on, so it saves and ends the run."""
    run = write_run(directory, seed=seed, iterations=ENDLESS, checkpoint=True, stages="[0, 3]", data_peers=2)
    lead = Braid("node", "--listen", "127.0.0.1:0", "--lead", "--run", run, "--wait-data-peers", "2", "--wait-relays", "1")
    ticket = lead.wait_for("ready")["ticket"]
    data = Braid("node", "--listen", "127.0.0.1:0", "--join", ticket, "--data", "--run", run)
    relay = Braid("node", "--listen", "127.0.0.1:0", "--join", ticket)
    data.wait_for("iteration", iteration=3)
    lead.process.kill()
    data.wait_for("takeover")
    seen = data.of("iteration")[-1]["iteration"]
    data.wait_for("iteration", iteration=seen + 2)
    data.process.terminate()
    expect(data.finish(30) == 0, f"the last data peer ended with {data.events[-1]}")
    end = data.events[-1]
    expect(end["stopped"] and end["reason"] == "SIGTERM" and end["path"], f"its end is {end}")
    expect(int(end["path"].split("-")[-1]) == end["iteration"], f"{end['path']} is not the state after iteration {end['iteration']}")
    expect(relay.finish(30) == 0 and relay.events[-1]["reason"] == "leader", f"the relay ended with {relay.events[-1]}")
    expect(end["weights"] == solo(run, end["iteration"], "--save", os.path.join(directory, "solo")), "other weights than solo's")


def main():
    seed = seed_of_test()
    for situation in (last_relays_leave, one_of_each_stage, nothing_is_saved, relay_of_up, leader_of_up, text_is_cut, last_data_peer):
        with workplace() as directory:
            situation(directory, seed)


main()
