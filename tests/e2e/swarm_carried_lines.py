#!/usr/bin/env python3
"""Three peers in three network namespaces. The line between the data peer and the first relay is slow, their lines to the second one are
fast: they find that out, tensors go round, and an iteration is over before they could all have crossed the slow line. Solo's bits."""

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
        # all go there one after the other, and the last one comes back: no machine is quicker, and routing swarm takes twice as long
        straight = (MICROBATCHES + 1) * (linelib.TENSOR_MIB << 20) * 8 / (SLOW * 1e6)
        lent = [end["carried_bytes"] >> 20 for end in swarm.ends]
        print(f"iterations of {[round(s, 2) for s in swarm.seconds]} s, {straight:.2f} s at least straight; {swarm.carried} tensors by way of others, MiB carried {lent}")
        expect(min(swarm.seconds[1:]) < straight, "the slow line was used")
        expect(swarm.carried >= ITERATIONS * MICROBATCHES, f"{swarm.carried} tensors went by way of others")
        expect(lent[2] >= swarm.carried * linelib.TENSOR_MIB * 3 // 4 and lent[0] == lent[1] == 0, f"the second relay should have carried them: {lent}")
        solo = Braid("train", "--solo", run).weights()
        expect(swarm.weights == solo, f"{swarm.weights} is not {solo}")


main()
