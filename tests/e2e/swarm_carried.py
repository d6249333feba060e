#!/usr/bin/env python3
"""Half of all tensors are relayed in pieces, and forwarders are killed (kill -9) before they pass a piece on; the bits are those of
one process. Then all tensors are relayed, large ones, and no process grows: the memory of pieces and tensors is freed."""

from swarmlib import ENDLESS, Braid, expect, seed_of_test, solo, workplace, write_run

EARLY, BETWEEN, TENSOR_KIB = 5, 7, 256


def resident_kib(process):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def killed(directory, seed):
    run = write_run(directory, seed=seed, iterations=ENDLESS, warmup=2)
    kills = [f"any@iteration:{when}" for when in ("3/carry", "7/carry:5", "11/backward", "15/carry:3")]
    flags = [flag for kill in kills for flag in ("--kill", kill)]
    swarm = Braid("up", run, "--relays", "9", "--late", "2@iteration:6", "--carried", "50", *flags)
    swarm.wait_for_killed(len(kills))
    done, weights = swarm.end()
    alone = solo(run, done)
    end = swarm.events[-1]
    points = [event["phase"] for event in swarm.of("killed")]
    print(f"{done} iterations in {end['seconds']:.1f} s, killed {points}, {end['repairs']} repairs, {end['carried']} tensors by way of others, {end['carried_bytes']} bytes carried")
    expect(weights == alone, f"{done} iterations: {weights} is not {alone}")
    expect(len(points) == len(kills) and points.count("carry") == 3, f"who should have died did not: {points}")
    tensors = done * 8 * 2 * 4  # iterations, microbatches, forward and backward, three relays and the owner
    expect(tensors // 3 < end["carried"] < tensors, f"{end['carried']} of {tensors} tensors went by way of others")
    expect(end["carried_bytes"] > 0, "nobody carried anything")


def large(directory, seed):
    text = f"{directory}/text5.txt"
    path = f"{directory}/large.yaml"
    with open(path, "w", encoding="ascii") as file:
        file.write(
            f"seed: {seed}\nstages: [0, 1, 1]\nmodel: {{dim: 32, layers: 2, heads: 2, context: 64}}\ndata: {{text: {text}}}\n"
            f"train: {{iterations: {ENDLESS}, warmup: 2, microbatches: 2, sequences: {TENSOR_KIB // 8}}}\nswarm: {{data_peers: 1}}\n"
        )
    swarm = Braid("up", path, "--relays", "3", "--carried", "100")
    swarm.wait_for("iteration", iteration=EARLY)
    processes = [event["process"] for event in swarm.of("spawned")]
    early = [resident_kib(process) for process in processes]
    swarm.wait_for_iterations(BETWEEN)
    late = [resident_kib(process) for process in processes]
    done, _ = swarm.end()
    end = swarm.events[-1]
    print(f"{end['seconds']:.1f} s, {end['carried']} tensors of {TENSOR_KIB} KiB by way of others; resident KiB early {early}, late {late}")
    tensors = done * 2 * 2 * 3
    expect(end["carried"] > tensors * 3 // 4, f"{end['carried']} of {tensors} tensors went by way of others")
    grown = max(late) - max(early)  # a relay without work so far grows as well
    # a leak of one tensor each time would be some 28 in each process
    expect(grown < 16 * TENSOR_KIB, f"a process has grown by {grown} KiB")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        killed(directory, seed)
        large(directory, seed)


main()
