#!/usr/bin/env bash
# braid sim: three of four relays of one stage die. The leader moves one relay of the other stage
# there, and every number is that of one process (--check). Without moves (placement: gwtf) the iterations stay long.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

printf '30 relay-1 kill\n31 relay-3 kill\n32 relay-4 kill\n' >kills.txt
cat >move.yaml <<'EOF'
name: move
iterations: 5
microbatches: 8
model: {arch: llama, dim: 1024, layers: 9, heads: 16, vocab: 32000, context: 512, sequences: 64, tokens: 512}
stages: [1, 4, 4]
peers:
- {name: data, role: data, capacity: 8, gflops: 64000}
- {name: relay, count: 8, capacity: 1, gflops: 64000}
links: {latency_ms: 20, mbps: 50, up_mbps: 100000, down_mbps: 100000}
churn: {trace: kills.txt}
EOF
{
    cat move.yaml
    echo "placement: gwtf"
} >stay.yaml

# Seconds of the newest iteration, and the number of peers that are in stage 2 at the end.
last_of() { sed -n 's/.*one after another: .* \([0-9.]*\)$/\1/p' "$1"; }
alive_in_2() { grep -E '^relay-[0-9] +2 ' "$1" | grep -cv 'away at the end'; }

for name in move stay; do
    expect 0 "time per iteration" "$BRAID" sim "$name.yaml" --no-plan-join --check
    cp output "$name.txt"
done
moved=$(last_of move.txt) stayed=$(last_of stay.txt)
awk -v a="$moved" -v b="$stayed" 'BEGIN { exit !(a > 0 && a < 0.85 * b) }' ||
    { echo "FAILED: the last iteration takes $moved s with moves, $stayed s without"; failures=$((failures + 1)); }
[ "$(alive_in_2 move.txt)" = 2 ] || { echo "FAILED: not exactly one relay moved"; failures=$((failures + 1)); }
[ "$(alive_in_2 stay.txt)" = 1 ] || { echo "FAILED: a relay moved without moves"; failures=$((failures + 1)); }
finish
