#!/usr/bin/env python3
"""Data peers are killed at every point of the protocol, one of them as the leader. Others become owners and leader, and the
weights are those of one process, bit for bit."""

from swarmlib import ENDLESS, Braid, expect, expect_each_iteration_once, seed_of_test, solo, workplace, write_run

POINTS = ("forward", "complete-sent", "backward", "committed", "weight", "reduction", "final")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        run = write_run(directory, seed=seed, sequences=16, iterations=ENDLESS, warmup=2, data_peers=3)
        one = Braid("up", run, "--relays", "6", "--kill", "data2@iteration:5", "--kill", "leader@iteration:9/reduction")
        one.wait_for_killed(2)
        done, weights = one.end()
        alone = solo(run, done)
        expect(weights == alone, f"a data peer and the leader killed, {done} iterations: {weights} is not {alone}")
        expect(len(one.of("killed")) == 2, f"killed {len(one.of('killed'))}, not both")
        # a relay that votes in place of the dead data peer may lead until the last data peer does
        data = {event["peer"] for event in one.of("joined") if event["role"] == "data"} - {event["peer"] for event in one.of("killed")}
        leaders = [event["peer"] for event in one.of("leader")]
        expect(leaders and leaders[-1] in data, f"no data peer leads, but {leaders}")
        expect(all(a != b for a, b in zip(leaders, leaders[1:])), f"told twice of a leader: {leaders}")
        expect_each_iteration_once(one, done)
        told = [(event["gone"], event["member"]) for event in one.of("takeover")]
        expect(told and len(set(told)) == len(told), f"who takes over from whom is not told once: {one.of('takeover')}")

        # all routers start again after the death of a data peer: here with an initial plan
        run = write_run(directory, seed=seed, sequences=16, iterations=ENDLESS, warmup=2, data_peers=3, plan_first=True, name="planned.yaml")
        wild = Braid("up", run, "--relays", "6", "--chaos", f"kills=3,joins=2,data={len(POINTS)},within=60,seed={seed}")
        # a kill waits until the run survives it, that is two seconds for the next voter
        wild.wait_for_killed(3 + len(POINTS))
        done, weights = wild.end()
        alone = solo(run, done)
        dead = wild.of("killed")
        data = [event["phase"] for event in dead if event["stage"] == 0]
        print(f"killed {len(dead)}, data peers at {sorted(data)}; repairs {wild.events[-1]['repairs']}; {done} iterations in {wild.events[-1]['seconds']:.1f} s")
        expect(weights == alone, f"data peers killed at {data}, {done} iterations: {weights} is not {alone}")
        expect(len(data) == len(POINTS), f"only {len(data)} data peers died")


main()
