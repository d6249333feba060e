#!/usr/bin/env python3
"""A short form of tools/supervise: services that are restarted by one line each, under random signals and full disks, lose no
checkpoint that was reported as saved, and end with the weights of one process."""

import os
import subprocess

from swarmlib import PROGRAM, expect, seed_of_test

SECONDS = "12"


def main():
    tool = os.path.join(os.environ.get("SOURCE", "."), "tools", "supervise")
    seed = seed_of_test()
    code = subprocess.run([tool, PROGRAM, "--seconds", SECONDS, "--seed", str(seed), "--pause", "1", "--every", "10"], check=False).returncode
    expect(code == 0, f"{tool} ended with {code}")


main()
