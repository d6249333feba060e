#!/usr/bin/env bash
# braid tokenize: ids of lines and of whole files, and a tokenizer trained from text.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
model="$(cd "$(dirname "$0")/.." && pwd)/golden/fixtures/tokenizers/gpt2.json"

printf 'a b\n\nabab' >text
"$BRAID" tokenize --train text --vocab 300 --out made 2>report || failures=$((failures + 1))
[ "$("$BRAID" tokenize made --ids text | wc -l)" = 3 ] || { echo "FAILED: a line of ids for each line"; failures=$((failures + 1)); }
[ "$("$BRAID" tokenize made --ids --whole text | wc -l)" = 1 ] || { echo "FAILED: --whole prints one line"; failures=$((failures + 1)); }
[ "$("$BRAID" tokenize made --ids <text)" = "$("$BRAID" tokenize made/tokenizer.json --ids text)" ] ||
    { echo "FAILED: standard input and a file differ"; failures=$((failures + 1)); }
with="$(echo x | "$BRAID" tokenize "$model" --ids)" without="$(echo x | "$BRAID" tokenize "$model" --ids --no-special)"
[ "$with" = "0 $without 0" ] || { echo "FAILED: '$with' is not '$without' with its ends"; failures=$((failures + 1)); }

expect 2 "is missing" "$BRAID" tokenize
expect 2 "nothing to do; give --ids" "$BRAID" tokenize made
expect 2 "at most one FILE" "$BRAID" tokenize made text text --ids
expect 2 "--train needs --out" "$BRAID" tokenize --train text
expect 1 "cannot open nowhere" "$BRAID" tokenize nowhere --ids
expect 1 "cannot open nothing" "$BRAID" tokenize made nothing --ids
expect 1 "not a JSON object with a 'model'" "$BRAID" tokenize text --ids
finish
