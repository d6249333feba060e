#!/usr/bin/env python3
"""Each end of `braid up` has a reason, names the orders that were not carried out, and leaves no process behind."""

import os
import select
import signal

from swarmlib import ENDLESS, Braid, expect, workplace, write_run


def wait_until_gone(process):
    """The kernel kills an orphaned child at once; its entry vanishes when init has collected it."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([descriptor], [], [], 20)
    os.close(descriptor)
    return bool(ready)


def expect_ended(swarm, words, code=1):
    ended = swarm.finish(60)
    said = "".join(swarm.complaints)
    expect(ended == code and words in said, f"ended with {ended}: {said}")
    expect(swarm.events[-1]["event"] == "end", f"the last line is {swarm.events[-1]}")
    expect(swarm.events[-1]["failed"] == (code != 0), f"the last line is {swarm.events[-1]}")
    expect_no_process_left(swarm)


def expect_no_process_left(swarm):
    for event in swarm.of("spawned"):
        expect(wait_until_gone(event["process"]), f"{event['role']} still runs")


def running(run, *flags):
    swarm = Braid("up", run, "--relays", "3", *flags)
    swarm.wait_for("iteration", iteration=2)
    return swarm, {event["role"]: event["process"] for event in swarm.of("spawned")}


def main():
    with workplace() as directory:
        run = write_run(directory, iterations=ENDLESS)

        swarm, processes = running(run, "--voters", "1")
        os.kill(processes["leader"], signal.SIGKILL)
        expect_ended(swarm, "leader (process")

        swarm, processes = running(run)
        os.kill(processes["leader"], signal.SIGKILL)  # another data peer leads, and ends the run on request
        swarm.wait_for("leader")
        swarm.wait_for_iterations()
        swarm.interrupt()
        expect_ended(swarm, "", code=0)

        swarm, processes = running(run)
        os.kill(processes["relay2"], signal.SIGKILL)  # the only one of its stage: another one is started, and the run rolls back
        swarm.wait_for("rolled_back")
        swarm.wait_for_iterations()
        swarm.interrupt()
        expect_ended(swarm, "", code=0)

        swarm, processes = running(run)
        os.kill(processes["data2"], signal.SIGKILL)  # another data peer becomes the owner
        swarm.wait_for("expelled", reason="it died")
        swarm.wait_for_iterations()
        swarm.interrupt()
        expect_ended(swarm, "", code=0)

        three = write_run(directory, iterations=ENDLESS, data_peers=3, name="three.yaml")
        swarm, processes = running(three)
        for who in "leader", "data2":  # two of three voters, or of four while data3 replaces a relay that was admitted before it
            os.kill(processes[who], signal.SIGKILL)
        expect_ended(swarm, "the run can have no leader any more: 2 of its ")
        kept = [count for count in (3, 4) if f": 2 of its {count} voters are dead, and more than half must be alive" in "".join(swarm.complaints)]
        expect(len(kept) == 1, f"it says {''.join(swarm.complaints)}")

        orders = "relay1@iteration:1/transfer", "relay1@iteration:2", "any@iteration:99999"
        swarm = Braid("up", run, "--relays", "6", "--late", "1@iteration:2", *(flag for order in orders for flag in ("--kill", order)))
        swarm.wait_until(lambda: len(swarm.of("joined")) >= 9, "a late join")
        swarm.wait_for_iterations(3)
        swarm.interrupt()
        expect_ended(swarm, "", code=0)
        why = "relay1 was ordered to die there, and had not reached that point when the run ended", "every candidate was about to die by another order", "the run ended first"
        told = [event["text"] for event in swarm.of("note") if "carried out" in event["text"]]
        wanted = [f"--kill {order} was not carried out: {words}" for order, words in zip(orders, why)]
        expect(told == wanted, f"of orders that were not carried out it says {told}")

        swarm, _ = running(run)
        swarm.process.kill()
        swarm.finish()
        expect_no_process_left(swarm)

        swarm, _ = running(run)
        swarm.interrupt()
        expect_ended(swarm, "", 0)

        # a process blocked by its unread output: the run does not start, so an orderly end has nothing to save
        os.mkfifo(os.path.join(directory, "relay3"))
        swarm = Braid("up", run, "--relays", "3", "--trace", directory)
        swarm.wait_for("spawned", role="relay3")
        swarm.interrupt()
        expect_ended(swarm, "", code=0)
        expect(swarm.events[-1]["stopped"] and swarm.events[-1]["reason"] == "SIGINT", f"the last line is {swarm.events[-1]}")

        swarm = Braid("up", run, "--relays", "3", "--max-memory", "1K")
        expect_ended(swarm, "--max-memory allows 1 KiB; raise it to at least ")


main()
