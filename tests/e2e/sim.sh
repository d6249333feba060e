#!/usr/bin/env bash
# braid sim: the examples, the output, and the errors for bad scenarios.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# ---- the examples: expected output, within a time limit, equal in two runs

# Seconds of processor time; the longest example, nine swarms of 14 peers, takes 29.
quickly() { (ulimit -t 90 && exec "$@"); }
for example in "$SOURCE"/examples/sim/*.yaml; do
    name=$(basename "$example" .yaml)
    expect 0 "The bottleneck is " quickly "$BRAID" sim "$example"
    cp output "$name.txt"
    for words in "time per iteration" "tokens per second" "Gain from one more peer"; do
        grep -qF "$words" "$name.txt" || fail "$name says nothing of '$words'"
    done
done
for turn in 1 2; do
    "$BRAID" sim "$SOURCE/examples/sim/home.yaml" >"home$turn.txt" 2>/dev/null || fail "home.yaml, turn $turn"
done
cmp -s home1.txt home2.txt || fail "home.yaml: two runs differ"

# only scenarios with random churn may report an uncertain gain of one more peer
grep -qF "* not significant" churn.txt || fail "churn.yaml says nothing of chance"
grep -qF "significant" home.txt && fail "home.yaml leaves nothing to chance"

# ---- for programs

json() { python3 -c 'import json, sys; d = json.load(open("sim.json")); sys.exit(0 if eval(sys.argv[1]) else 1)' "$1"; }
"$BRAID" sim "$SOURCE/examples/sim/partition.yaml" --json --iterations 3 --seed 5 --no-plan-join --trace trace.json >sim.json 2>/dev/null ||
    fail "--json"
json 'd["seed"] == 5 and len(d["iterations"]) == 3 and d["one_more_peer"] == []' || fail "flags in JSON"
json 'all(i["start_s"] <= i["close_s"] <= i["end_s"] and i["microbatches"] == 24 for i in d["iterations"])' || fail "iterations in JSON"
json 'sum(p["microbatches"] for p in d["peers"] if p["stage"] == 1) == 72' || fail "every microbatch counts once in a stage"
python3 -c 'import json; assert len(json.load(open("trace.json"))["traceEvents"]) > 100' || fail "--trace"

# An unwritable timeline is refused before the simulation.
if [ -e /dev/full ]; then
    quickly "$BRAID" sim "$SOURCE/examples/sim/partition.yaml" --iterations 10000 --no-plan-join --trace /dev/full >/dev/null 2>full.err &&
        fail "--trace: a full disk is no error"
    grep -q "timeline /dev/full cannot be written" full.err || fail "--trace: a full disk is not noticed at once"
fi

# ---- bad scenarios: the exit status, and file, line, column, key and remedy

write_scenario() {  # path [sed script]...
    local path=$1 script arguments=(-e '')
    shift
    for script in "$@"; do arguments+=(-e "$script"); done
    sed "${arguments[@]}" >"$path" <<'END'
name: small
seed: 7
iterations: 2
model: demo
stages: 3
microbatches: 4
peers:
- {name: anna, role: data, gflops: 100}
- {name: first, stage: 1, gflops: 50, capacity: 2}
- {name: second, stage: 2, gflops: 50, count: 2}
links:
  latency_ms: 5
  up_mbps: 50
END
}
# the order of the peers in the file does not matter
hash_of() { "$BRAID" sim "$1" --no-plan-join --json 2>/dev/null | grep -o '"trace_hash":"[0-9a-f]*"'; }
write_scenario good.yaml
{ sed '/^- /,$d' good.yaml; sed -n '/^- /p' good.yaml | tac; sed '1,/second/d' good.yaml; } >turned.yaml
[ "$(grep -c '^- ' turned.yaml)" -eq 3 ] || fail "the listing was not turned"
[ -n "$(hash_of good.yaml)" ] && [ "$(hash_of good.yaml)" = "$(hash_of turned.yaml)" ] || fail "the order of peers matters"
[ "$(hash_of good.yaml)" != "$(sed 's/^seed: 7/seed: 8/' good.yaml >other.yaml && hash_of other.yaml)" ] || fail "the seed does not matter"

{ cat good.yaml; echo '  resets_per_hour: 3600'; } >resets.yaml
"$BRAID" sim resets.yaml --json >sim.json 2>/dev/null || fail "resets.yaml"
json 'd["chance"]["seeds"] == 5 and d["chance"]["failed"] == 0 and d["chance"]["sd_s"] > 0' || fail "chance in JSON"
json 'all(p["within_chance"] == (abs(p["mean_s"] - d["chance"]["mean_s"]) <= 2 * d["chance"]["sd_s"]) for p in d["one_more_peer"])' || fail "what may be chance"
"$BRAID" sim good.yaml --json >sim.json 2>/dev/null || fail "good.yaml"
json 'd["chance"] is None and not any(p["within_chance"] for p in d["one_more_peer"])' || fail "chance where there is none"

mistake() {  # text sed-script...
    local text=$1
    shift
    write_scenario bad.yaml "$@"
    expect 2 "$text" "$BRAID" sim bad.yaml
}
expect 0 "time per iteration" "$BRAID" sim good.yaml --no-plan-join
expect 0 "time per iteration" "$BRAID" sim good.yaml --no-plan-join --check
expect 2 "none.yaml': No such file or directory" "$BRAID" sim none.yaml
expect 2 "SCENARIO.yaml is missing" "$BRAID" sim
expect 2 "unknown flag --sead; did you mean --seed?" "$BRAID" sim good.yaml --sead 4
expect 2 "--iterations: 0 is too small" "$BRAID" sim good.yaml --iterations 0
expect 1 "nowhere/trace.json" "$BRAID" sim good.yaml --no-plan-join --trace nowhere/trace.json
mistake "bad.yaml:3:1: unknown key 'iteratoins'; did you mean 'iterations'?" 's/iterations/iteratoins/'
mistake "bad.yaml:12:15: links.latency_ms must be from 0 to 60000, not -5" 's/latency_ms: 5/latency_ms: -5/'
mistake "bad.yaml:9:49: peers[first].capacity must be from 1 to 1024, not 0" 's/capacity: 2/capacity: 0/'
mistake "bad.yaml:8:1: stage 1 has no peer: add one with 'stage: 1'" '/first/d'
mistake "bad.yaml:5:37: stages go round in a circle (b -> c -> b)" 's/stages: 3/stages: [{name: a}, {name: b, next: c}, {name: c, next: b}]/'
mistake "bad.yaml:9:24: peers[first].stage: there is no stage '7': stages of relays are 1 to 2 (line 5)" 's/stage: 1/stage: 7/'
mistake "bad.yaml:9:10: peers[anna].name: 'anna' is taken already" 's/name: first/name: anna/'
mistake "no place 'Londn' is known; did you mean 'London'?" 's/gflops: 100/gflops: 100, place: Londn/'
mistake "bad.yaml:4:8: model: no model 'gpt3' is built in; choose one of demo, gpt2-small" 's/model: demo/model: gpt3/'
mistake "bad.yaml:7:8: peers must be a list" 's/^peers:.*/peers: nobody/; /^- /d'
mistake "bad.yaml:8:4: a key must be a plain word" 's/^- {name: anna/- {{name: anna/'
mistake_after() {  # text line: a scenario with one more line
    write_scenario bad.yaml
    echo "$2" >>bad.yaml
    expect 2 "$1" "$BRAID" sim bad.yaml
}
mistake_after "bad.yaml:14:28: links.pairs[1].between: no peer is called 'firts'; did you mean 'first'?" '  pairs: [{between: [anna, firts], mbps: 1}]'
mistake_after "bad.yaml:14:27: churn.only: 'anna' leads the run, being the first data peer by name, and cannot come and go: name others, or a group without it" 'churn: {crash: 0.1, only: anna}'
mistake_after "bad.yaml:14:16: churn.trace: cannot read 'lives.txt': No such file or directory" 'churn: {trace: lives.txt}'
printf '1 first crash\n2 second-1 dies\n' >lives.txt
expect 2 "lives.txt:2: unknown event 'dies'" "$BRAID" sim bad.yaml

# a stage without peers: the message has the stage and the time
echo '3 first crash' >lives.txt
{ sed -e '/^- {name: second/s/, count: 2//' -e 's/^iterations: 2/iterations: 50/' good.yaml; echo 'churn: {trace: lives.txt}'; } >dies.yaml
expect 1 "no peer has worked in stage 1 since first died at 3.0 s: keep another peer there, or let this one come back" "$BRAID" sim dies.yaml --no-plan-join

finish
