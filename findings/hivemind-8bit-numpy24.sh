#!/usr/bin/env bash
# One would guess: hivemind 1.1.12 accepts any NumPy from 1.17 on, so a round of averaging with
# 8-bit compression works with a new one. If it does not, step() raises an error or returns None.
#
# What happens: with NumPy 2.4 every round of 8-bit averaging "succeeds". Both peers get the group
# with both members from step(), no exception reaches the caller, and each keeps exactly the values
# that it had: nothing is averaged. Two warnings in the log say that about half of the parts came.
# The reader of an 8-bit tensor turns an array with one element into an int, which NumPy deprecated
# in 1.25 and refuses since 2.4; the error counts as a peer that failed to send its part. Without
# compression and with 16 bit, the same two peers average, and with NumPy 2.2 8 bit works, too.
#
# Why it matters: a training run with 8-bit averaging looks healthy after an upgrade of NumPy, while
# its peers train apart. A measurement of 8-bit averaging then times rounds that do nothing.
#
# Needs about 7 GB of disk, because torch installs its GPU libraries. No GPU is needed.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-cache-dir hivemind==1.1.12 torch==2.15.0 "numpy==2.4.6"
"$work/venv/bin/pip" install --quiet --no-deps --target "$work/older" numpy==2.2.6

cat >"$work/average.py" <<'PYTHON'
import warnings

warnings.simplefilter("ignore")
import hivemind
import numpy
import torch
from hivemind.compression import Float16Compression, NoCompression, Uniform8BitQuantization

ADDRESS = ["/ip4/127.0.0.1/tcp/0"]


def average(compression):
    """Two peers hold ones and threes. Returns the sizes of the groups that step() reports, and what each peer holds then."""
    first = hivemind.DHT(start=True, host_maddrs=ADDRESS)
    second = hivemind.DHT(start=True, host_maddrs=ADDRESS, initial_peers=first.get_visible_maddrs())
    peers = [
        hivemind.averaging.DecentralizedAverager(
            [torch.full((1_000_000,), value)], dht, prefix="numbers", start=True, target_group_size=2, min_group_size=2,
            min_matchmaking_time=3.0, request_timeout=1.0, compression=compression)
        for value, dht in ((1.0, first), (3.0, second))
    ]
    rounds = [peer.step(wait=False, timeout=120) for peer in peers]
    groups = [len(step.result() or ()) for step in rounds]
    means = []
    for peer in peers:
        with peer.get_tensors() as tensors:
            means.append(tensors[0].mean().item())
    for part in [*peers, second, first]:
        part.shutdown()
    return groups, means


new = tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 4)
print(f"hivemind {hivemind.__version__}, numpy {numpy.__version__}, torch {torch.__version__}")
for compression in (NoCompression(), Float16Compression(), Uniform8BitQuantization()):
    groups, means = average(compression)
    print(f"  {type(compression).__name__}: groups of {groups} peers, and the peers hold {means}", flush=True)
    broken = new and isinstance(compression, Uniform8BitQuantization)
    assert groups == [2, 2]
    assert means == ([1.0, 3.0] if broken else [2.0, 2.0])
PYTHON
PYTHONPATH="$work/older" "$work/venv/bin/python" "$work/average.py" 2>"$work/log" || { cat "$work/log"; exit 1; }
"$work/venv/bin/python" "$work/average.py" 2>"$work/log" || { cat "$work/log"; exit 1; }
grep -o "Averaging: received.*" "$work/log" | head -n 2
