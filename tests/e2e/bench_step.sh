#!/usr/bin/env bash
# braid bench step: each model's name is known, both modes have the same loss, and the parts of a step are printed.
set -eu

"$BRAID" bench step --model llama-1.2m --reps 2 --warmup 1 --no-shapes --json >fast.json
"$BRAID" bench step --model llama-1.2m --reps 2 --warmup 1 --no-shapes --json --reproducible --threads 2 >exact.json
"$BRAID" bench step --model llama-1.2m --reps 1 --warmup 0 >table.txt
grep -q '^up dW' table.txt
grep -q '^chain_run' table.txt
if "$BRAID" bench step --model no-such 2>refused.txt; then exit 1; fi
grep -q 'llama-4.9m' refused.txt

python3 - <<'END'
import json

fast, exact = json.load(open("fast.json")), json.load(open("exact.json"))
assert fast["steps"] == exact["steps"] == 2 and exact["reproducible"] and not fast["reproducible"]
assert abs(fast["loss"] - exact["loss"]) < 1e-3 and 5 < fast["loss"] < 6, (fast["loss"], exact["loss"])
for found in fast, exact:
    assert abs(found["tokens_per_second"] * found["seconds"] - 8 * 128) < 1e-6
    # The parts add up to a step, except for the time between them.
    assert 0.9 < sum(found["parts_ms"].values()) / 1e3 / found["seconds"] < 1.3, found
END
