#!/usr/bin/env bash
# braid generate on checkpoints, directories and GGUF files that this test makes: texts, stops, and mistakes.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
write_text words.txt
write_run run.yaml
"$BRAID" train --solo run.yaml --save saved --threads 1 >train.txt 2>&1
check() { # text...: two outputs that must be equal
    [ "$2" = "$3" ] || { printf 'FAILED: %s:\n  %s\n  %s\n' "$1" "$2" "$3"; failures=$((failures + 1)); }
}

# a checkpoint of bytes: the seed decides, threads and the form of the cache's memory do not
text=$("$BRAID" generate saved --prompt the --tokens 60 --seed 3 --threads 1)
check "threads" "$text" "$("$BRAID" generate saved --prompt the --tokens 60 --seed 3 --threads 2)"
[ "$text" != "$("$BRAID" generate saved --prompt the --tokens 60 --seed 4)" ] || { echo "FAILED: the seed changes nothing"; failures=$((failures + 1)); }
[ "${#text}" -gt 40 ] || { echo "FAILED: only ${#text} characters"; failures=$((failures + 1)); }
printf the >prompt.txt
check "a prompt in a file" "$text" "$("$BRAID" generate saved --prompt-file prompt.txt --tokens 60 --seed 3)"
expect 0 "the" "$BRAID" generate saved --prompt the --tokens 5 --int8
expect 0 "the" "$BRAID" generate saved --prompt the --tokens 5 --cache-f16 --exact
expect 0 "prompt of 3 tokens" "$BRAID" generate saved --prompt the --tokens 5 --timings
# longer than the context of 32: the older half is dropped
expect 0 "" "$BRAID" generate saved --tokens 100
expect 0 "$(head -c 500 words.txt | tail -n 1)" "$BRAID" generate saved --prompt "$(head -c 500 words.txt)" --tokens 3

# a stop string ends the text before it
greedy=$("$BRAID" generate saved --prompt the --tokens 20 --temperature 0)
rest=${greedy#the}
stop=${rest:4:3}
expected="the${rest%%"$stop"*}"
check "a stop string" "$expected" "$("$BRAID" generate saved --prompt the --tokens 20 --temperature 0 --stop "$stop")"

# the same weights in a directory, where nothing says that tokens are bytes but the tokenizer
"$BRAID" convert saved directory --to f32 >convert.txt 2>&1
check "a directory" "$greedy" "$("$BRAID" generate directory --prompt the --tokens 20 --temperature 0)"
expect 1 "the prompt has 33 tokens, the context is 32" "$BRAID" generate directory --prompt "123456789012345678901234567890123" --tokens 2
expect 0 "the context of 32 tokens is full" "$BRAID" generate directory --prompt 12345678 --tokens 60 --ignore-end
expect 0 "the context of 12 tokens is full" "$BRAID" generate directory --prompt 12345678 --tokens 60 --context 12 --ignore-end

# mistakes
expect 1 "a context of 40 tokens is longer than the model's, 32" "$BRAID" generate saved --context 40
rm directory/tokenizer.json
expect 1 "tokenizer" "$BRAID" generate directory --prompt the
expect 1 "nowhere" "$BRAID" generate nowhere
expect 2 "MODEL is missing" "$BRAID" generate
expect 2 "give --prompt or --prompt-file, not both" "$BRAID" generate saved --prompt a --prompt-file prompt.txt
expect 1 "cannot open the prompt nothing" "$BRAID" generate saved --prompt-file nothing
gzip -c words.txt >packed
expect 1 "the prompt packed is gzip-compressed" "$BRAID" generate saved --prompt-file packed
expect 2 "--min-p: 2 is too large: at most 1" "$BRAID" generate saved --min-p 2
expect 2 "--repeat-penalty: 0 is too small" "$BRAID" generate saved --repeat-penalty 0
expect 2 "--stop: the value is empty" "$BRAID" generate saved --stop ''
"$BRAID" convert saved model.gguf --to f32 >convert.txt 2>&1
head -c 3000 model.gguf >short.gguf
expect 1 "short.gguf" "$BRAID" generate short.gguf
finish
