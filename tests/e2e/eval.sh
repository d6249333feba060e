#!/usr/bin/env bash
# braid eval: perplexity and multiple choice of a small model, and mistakes.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
write_text words.txt
write_run run.yaml
"$BRAID" train --solo run.yaml --save saved --threads 1 >train.txt 2>&1
"$BRAID" convert saved model --to f32 >convert.txt 2>&1
check() { # text...: two outputs that must be equal
    [ "$2" = "$3" ] || { printf 'FAILED: %s:\n  %s\n  %s\n' "$1" "$2" "$3"; failures=$((failures + 1)); }
}
without_times() { sed 's/"seconds":[^,}]*//; s/[0-9.]* s$//' ; }

# a model of bytes: a token is a byte, and the figures do not depend on threads or on the form of the model
head -c 400 words.txt >text
figures=$("$BRAID" eval saved --text text --json --threads 1 | without_times)
check "threads" "$figures" "$("$BRAID" eval saved --text text --json --threads 2 | without_times)"
check "a directory" "$figures" "$("$BRAID" eval model --text text --json | without_times)"
[[ "$figures" == *'"tokens":399,"bytes":399'* ]] || { echo "FAILED: $figures"; failures=$((failures + 1)); }
[ "$figures" != "$("$BRAID" eval saved --text text --json --window 8 | without_times)" ] || { echo "FAILED: the window changes nothing"; failures=$((failures + 1)); }
expect 0 "99 tokens" "$BRAID" eval saved --text text --most-tokens 100

# choices: the same scores whatever is read together
for i in 1 2 3 4 5; do printf '{"query": "the river %s", "choices": [" bends", " xqzj", " every"], "gold": 0}\n' "$i"; done >rivers.jsonl
printf '{"query": "every", "choices": [" stone", " zzzzz"], "gold": 0}\n' >stones.jsonl
"$BRAID" eval model --choices rivers.jsonl --choices stones.jsonl --json --details one --together 1 | without_times >first
"$BRAID" eval model --choices rivers.jsonl --choices stones.jsonl --json --details all --together 64 --threads 2 | without_times >second
cmp first second && cmp one all || failures=$((failures + 1))
check "lines of details" 6 "$(wc -l <one)"
grep -q '"event":"choices","task":"rivers","items":5' first || { echo "FAILED: no task rivers"; failures=$((failures + 1)); }
grep -q '"event":"mean","tasks":2' first || { echo "FAILED: no mean"; failures=$((failures + 1)); }
expect 0 "stones                1 items   accuracy" "$BRAID" eval model --choices stones.jsonl

# mistakes
expect 2 "say what to measure" "$BRAID" eval model
expect 1 "cannot open the text nothing" "$BRAID" eval model --text nothing
expect 1 "cannot open nothing" "$BRAID" eval model --choices nothing
expect 1 "--choices needs a model with a tokenizer" "$BRAID" eval saved --choices stones.jsonl
expect 1 "a window of 8 tokens with a stride of 8" "$BRAID" eval model --text text --window 8 --stride 8
expect 1 "a window of 64 tokens is longer than the context of 32" "$BRAID" eval model --text text --window 64
gzip -c words.txt >packed && expect 1 "the text packed is gzip-compressed; decompress it" "$BRAID" eval model --text packed
: >none && expect 1 "the text none is empty" "$BRAID" eval model --text none
printf 'x' >short
expect 1 "fewer than two tokens" "$BRAID" eval model --text short
printf '{"query": "q", "choices": ["a", "b"], "gold": 7}\n' >bad.jsonl
expect 1 "bad.jsonl, line 1: 'gold' must be the index of a choice" "$BRAID" eval model --choices bad.jsonl
printf '{"query": "the river that bends round every", "choices": ["a", "b"], "gold": 1}\n' >long.jsonl
expect 1 "line 1 of the choices: query and choice are longer" "$BRAID" eval model --choices long.jsonl
expect 1 "cannot write /nowhere/x" "$BRAID" eval model --choices stones.jsonl --details /nowhere/x
finish
