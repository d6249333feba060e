#!/usr/bin/env python3
"""`braid up` with private data is killed (kill -9). The next one removes its keys, but not those of a running one."""

import os

from swarmlib import Braid, expect, make_texts_private, seed_of_test, workplace, write_run, write_text


def describe(directory, seed):
    text = os.path.join(directory, "text")
    write_text(text, seed)
    run = write_run(directory, seed=seed, iterations=100000, data_peers=2, stages="[0, 3]")
    make_texts_private(run, [text, text])
    return run


def watch(begin, place):
    first, second = begin(), begin()
    expect(len(os.listdir(place)) == 2, f"not one directory each: {os.listdir(place)}")
    first.stop()
    second.stop()
    left = set(os.listdir(place))
    expect(len(left) == 2, f"who was killed cannot have removed them: {left}")
    third, fourth = begin(), begin()
    now = set(os.listdir(place))
    expect(len(now) == 2 and not now & left, f"{left} were left, {now} are there")
    for up in (third, fourth):
        up.interrupt()
        expect(up.finish() == 0, "it did not end well")
    expect(not os.listdir(place), f"this stays behind: {os.listdir(place)}")


def main():
    seed = seed_of_test()
    with workplace() as directory:
        place = os.path.join(directory, "temporary")
        os.mkdir(place)
        run = describe(directory, seed)
        begun = []

        def begin():
            begun.append(Braid("up", run, "--relays", "1", env={"TMPDIR": place}))
            begun[-1].wait_for("iteration", iteration=1)
            return begun[-1]

        try:
            watch(begin, place)
        finally:
            for up in begun:
                up.stop()


main()
