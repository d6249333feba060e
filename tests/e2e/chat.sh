#!/usr/bin/env bash
# braid chat: prompts of a template, conversations, a full context, and mistakes.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
write_text words.txt
write_run run.yaml
"$BRAID" train --solo run.yaml --save saved --threads 1 >train.txt 2>&1
"$BRAID" convert saved model --to f32 >convert.txt 2>&1
check() { # text...: two outputs that must be equal
    [ "$2" = "$3" ] || { printf 'FAILED: %s:\n  %s\n  %s\n' "$1" "$2" "$3"; failures=$((failures + 1)); }
}

expect 1 "the model has no chat template" "$BRAID" chat model --once the
expect 1 "the model reads bytes" "$BRAID" chat saved --once the
# shellcheck disable=SC2016
printf '{%% for m in messages %%}{{ m.role[0] }}{{ m.content | trim }};{%% endfor %%}{%% if short %%}!{%% endif %%}\n' >model/chat_template.jinja
check "the prompt" "sBe;ut he;" "$("$BRAID" chat model --once ' t he ' --system Be --show-prompt)"
check "variables" "uthe;!" "$("$BRAID" chat model --once the --variables '{"short": true}' --show-prompt)"
printf '<{{ messages[0].content }}>' >other.jinja
check "another template" "<the>" "$("$BRAID" chat model --once the --template other.jinja --show-prompt)"

# an answer is what generate writes after the same prompt; a seed decides
answer=$("$BRAID" chat model --once the --tokens 6 --temperature 0 2>notes)
check "an answer" "uthe;$answer" "$("$BRAID" generate model --prompt 'uthe;' --tokens 6 --temperature 0)"
grep -q "the answer ends here because it has 6 tokens" notes || { echo "FAILED: no note about --tokens"; failures=$((failures + 1)); }
check "the seed" "$("$BRAID" chat model --once the --tokens 6 --seed 5 2>&1)" "$("$BRAID" chat model --once the --tokens 6 --seed 5 --threads 2 2>&1)"

# a second question follows the first and its answer; /reset forgets them
first=$(printf 'a\n' | "$BRAID" chat model --tokens 2 --temperature 0 2>notes)
second=$(printf 'a\nb\n' | "$BRAID" chat model --tokens 2 --temperature 0 2>notes | tail -n +2)
check "a second question" "ua;a$(echo "$first" | sed 's/^ *//;s/ *$//');ub;$second" \
    "$("$BRAID" generate model --prompt "ua;a$(echo "$first" | sed 's/^ *//;s/ *$//');ub;" --tokens 2 --temperature 0)"
check "a reset" "$first" "$(printf 'b\n/reset\na\n' | "$BRAID" chat model --tokens 2 --temperature 0 2>notes | tail -n +2)"
printf 'one \\\ntwo\n/nonsense\n/system Be\n/quit\nnever\n' | "$BRAID" chat model --tokens 1 >output 2>notes
check "lines" 1 "$(wc -l <output)"
grep -q "'/nonsense' is not known" notes || { echo "FAILED: an unknown command is not reported"; failures=$((failures + 1)); }

# the context of 32 tokens: the oldest question goes; one that is too long is refused, and the conversation goes on
printf '1234567890\n1234567890\n1234567890123456789012345678901234567890\nx\n' | "$BRAID" chat model --tokens 4 >output 2>notes || true
grep -q "1 of the oldest questions and their answers were dropped" notes || { echo "FAILED: nothing was dropped"; cat notes; failures=$((failures + 1)); }
grep -q "the question has 42 tokens with the template, the context is 32" notes || { echo "FAILED: a long question"; cat notes; failures=$((failures + 1)); }
check "three answers" 3 "$(wc -l <output)"

# mistakes
expect 2 "--show-prompt needs --once" "$BRAID" chat model --show-prompt
expect 1 "cannot open the chat template nothing" "$BRAID" chat model --once a --template nothing
expect 1 "the variables of a chat: not valid JSON" "$BRAID" chat model --once a --variables '{'
printf '{{ raise_exception("no \\x1b[31m\\nred") }}' >bad.jinja
expect 1 "the template refuses these messages: no ?[31m red" "$BRAID" chat model --once a --template bad.jinja
printf '{%% include "x" %%}' >bad.jinja
expect 1 "chat template, line 1: the tag 'include' is not supported" "$BRAID" chat model --once a --template bad.jinja
printf 'a\n{{ raise_exception("no " ~ messages[0].role) }}' >bad.jinja
expect 1 "chat template, line 2: the template refuses these messages: no user" "$BRAID" chat model --once a --template bad.jinja
printf '{{ tools[0].name }}' >bad.jinja
expect 1 "chat template, line 1: a value of type 'NoneType' has no attribute '0'" "$BRAID" chat model --once a --template bad.jinja
finish
