"""How long the end-to-end tests wait on a machine that has other work: their limits are for an idle one, and scale with its
load. CTest's limit on wall time and run_limited's on processor time stay as they are."""

import os
import sys
import time

_printed = 1


def load_factor():
    """At least 1: how many processes or threads there are to run for each processor, now or in the last minute."""
    global _printed
    with open("/proc/loadavg", encoding="ascii") as file:
        fields = file.read().split()
    running = int(fields[3].split("/")[0]) - 1  # without this one
    factor = max(1.0, float(fields[0]) / os.cpu_count(), running / os.cpu_count())
    if factor > 1.5 * _printed:
        print(f"limits of time times {factor:.1f}: the load is {fields[0]} and {running} run, on {os.cpu_count()} processors", file=sys.stderr, flush=True)
        _printed = factor
    return factor


def scaled(seconds):
    """A limit for something that starts now."""
    return seconds * load_factor()


class Limit:
    """A limit that began when it was made; each look at it takes the load of that moment into account."""

    def __init__(self, seconds):
        self.seconds, self.began = seconds, time.monotonic()
        self.factor = load_factor()

    def left(self):
        """Seconds, 0 when it is over."""
        self.factor = max(self.factor, load_factor())
        return max(0.0, self.seconds * self.factor - (time.monotonic() - self.began))
