#!/usr/bin/env python3
"""Three peers in three network namespaces. The link between the data peer and the first relay is slow, their links to the second
relay are fast. Peers measure that and relay tensors, so an iteration ends before all could have crossed the slow link. The bits
are those of one process."""

import linelib
from linelib import Lines, Measured, write_lines_run
from swarmlib import Braid, expect, seed_of_test, workplace

SLOW, FAST = 10, 200  # Mb/s
ITERATIONS, MICROBATCHES = 3, 3


def main():
    linelib.enter()
    seed = seed_of_test()
    with workplace() as directory, Lines(3, lambda a, b: SLOW if (a, b) == (0, 1) else FAST) as lines:
        run = write_lines_run(directory, seed, ITERATIONS, MICROBATCHES)
        swarm = Measured(lines, run, stages=[1, 2])
        # all tensors cross one after the other, and the last one returns: the minimum of direct transfers; routing swarm takes twice that
        straight = (MICROBATCHES + 1) * (linelib.TENSOR_MIB << 20) * 8 / (SLOW * 1e6)
        lent = [end["carried_bytes"] >> 20 for end in swarm.ends]
        print(f"iterations of {[round(s, 2) for s in swarm.seconds]} s, {straight:.2f} s at least straight; {swarm.carried} tensors by way of others, MiB carried {lent}")
        expect(min(swarm.seconds[1:]) < straight, "the slow line was used")
        expect(swarm.carried >= ITERATIONS * MICROBATCHES, f"{swarm.carried} tensors went by way of others")
        expect(lent[2] >= swarm.carried * linelib.TENSOR_MIB * 3 // 4 and lent[0] == lent[1] == 0, f"the second relay should have carried them: {lent}")
        solo = Braid("train", "--solo", run).weights()
        expect(swarm.weights == solo, f"{swarm.weights} is not {solo}")


main()
