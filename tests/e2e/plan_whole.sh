#!/usr/bin/env bash
# A profile of this machine, and the plan of one machine that swaps layers.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "$0")/lib.sh"

printf 'A text for a run that is never started. %.0s' $(seq 200) >text.txt
cat >run.yaml <<'END'
model: {dim: 64, layers: 6, heads: 4, context: 64}
data: {text: text.txt}
train: {microbatches: 4, sequences: 1, tokens: 64, iterations: 2}
END

expect 0 "writing the state file" "$BRAID" profile run.yaml --state-dir . --reps 1 --out machine.json
expect 0 "Written to machine.json" "$BRAID" profile run.yaml --state-dir . --reps 1 --out machine.json
[ ! -e profile.tmp ] || { echo "FAILED: profile.tmp was left"; failures=$((failures + 1)); }

expect 0 "nothing is swapped" "$BRAID" plan run.yaml --whole --profile machine.json --max-memory 1G
expect 0 "a disk twice as fast" "$BRAID" plan run.yaml --whole --profile machine.json --max-memory 4M --plot timeline.svg
expect 0 "</svg>" tail -n 1 timeline.svg
expect 0 '"sub_models":[{"first_item":' "$BRAID" plan run.yaml --whole --profile machine.json --max-memory 4M --json

expect 1 "two neighbouring layers" "$BRAID" plan run.yaml --whole --profile machine.json --max-memory 1M
# the least memory that the refusal names is enough, and a tenth less is not
least=$({ "$BRAID" plan run.yaml --whole --profile machine.json --max-memory 1M 2>&1 || true; } | sed -n 's/.*at least \([0-9]*\)K.*/\1/p')
expect 0 "An iteration takes" "$BRAID" plan run.yaml --whole --profile machine.json --max-memory "${least}K"
expect 1 "at least ${least}K" "$BRAID" plan run.yaml --whole --profile machine.json --max-memory "$((least * 9 / 10))K"
expect 2 "give --max-memory" "$BRAID" plan run.yaml --whole --profile machine.json
expect 2 "--plot needs --whole" "$BRAID" plan run.yaml --plot timeline.svg
sed 's/layers: 6/layers: 5/' run.yaml >other.yaml
expect 1 "is of 6 layers and microbatches of 1 x 64 tokens, the run has 5" "$BRAID" plan other.yaml --whole --profile machine.json --max-memory 1G
sed 's/"forward_s": [0-9.e-]*/"forward_s": -1/' machine.json >negative.json
expect 1 "measure again" "$BRAID" plan run.yaml --whole --profile negative.json --max-memory 1G
expect 0 "Written" "$BRAID" profile run.yaml --reps 1 --out no-rates.json
expect 1 "has no rates of a state file" "$BRAID" plan run.yaml --whole --profile no-rates.json --max-memory 4M
expect 1 "nowhere" "$BRAID" profile run.yaml --state-dir nowhere --reps 1

finish
