#!/bin/bash
# Directories of checkpoints in practice: the same command again, two runs at once, copies by tools without links, models without
# optimizer files, configurations saved by other tools.
. "$(dirname "$0")/lib.sh"
write_text words.txt 300
write_run run.yaml 's/iterations: 4/iterations: 6/' '$a checkpoint: {dir: ck, every: 2}'
optimizer='optimizer-00001-of-00001.safetensors'
check() { "$@" || { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }; }
entries() { check [ "$(cd "$1" && echo *)" = "$2" ]; }

# the same command again
expect 0 "weights " "$BRAID" train --solo run.yaml
entries ck "latest step-000004 step-000006"
again="ck' has iteration 6 of this run: --resume"
expect 1 "$again" timeout "$(scaled 8)" "$BRAID" train --solo run.yaml
expect 1 "$again" timeout "$(scaled 8)" "$BRAID" train --solo run.yaml --iterations 3
expect 1 "$again" timeout "$(scaled 8)" "$BRAID" up run.yaml --relays 2
expect 1 "$again" timeout "$(scaled 8)" "$BRAID" node --lead --run run.yaml --listen 127.0.0.1:0 --log fresh.log
check [ ! -e fresh.log ]
entries ck "latest step-000004 step-000006"

# a run that is complete
nothing="nothing to do: iteration 6 of 6 is done; a larger train.iterations extends the run"
for verb in "train --solo run.yaml" "up run.yaml --relays 2" "node --lead --run run.yaml --listen 127.0.0.1:0"; do
    # shellcheck disable=SC2086
    expect 0 "$nothing" timeout "$(scaled 8)" "$BRAID" $verb --resume ck
    check [ "$(grep -c -E 'nan|7 to 6' output)" = 0 ]
    check grep -q "^weights $(sed -n 's/.*"weights": "\([0-9a-f]*\)".*/\1/p' ck/latest/braid-manifest.json)" output
done

# copies
cp -r ck/step-* "$(mkdir copy && echo copy)"
touch copy/.DS_Store copy/step-000006/Thumbs.db copy/step-000006/desktop.ini
cp -r ck/step-000004 'a model (1)'
mkdir windows && cp -r ck/step-* windows/ && printf 'step-000004\r\n' >windows/latest
cp -rL ck zipped
for place in copy copy/latest 'a model (1)' windows windows/latest zipped zipped/latest; do
    expect 0 "" "$BRAID" generate "$place" --tokens 3
done
expect 0 "iterations 5 to 6" "$BRAID" train --solo run.yaml --resume windows --save windows
expect 0 "iterations 5 to 6" "$BRAID" train --solo run.yaml --resume 'a model (1)' --save fresh
expect 0 "$nothing" "$BRAID" train --solo run.yaml --resume copy --save copy

# changes by other tools
python3 - ck/step-000006/config.json <<'END'
import json, sys
config = json.load(open(sys.argv[1]))
config["rope_parameters"] = {"rope_theta": config.pop("rope_theta"), "rope_type": "default"}
config.update(transformers_version="5.23.0", use_cache=True, pretraining_tp=1, pad_token_id=None)
json.dump(dict(sorted(config.items())), open(sys.argv[1], "w"), indent=8)
END
echo '{"eos_token_id": [10]}' >ck/step-000006/generation_config.json
rm ck/step-000006/tokenizer_config.json
expect 0 "" "$BRAID" generate ck --tokens 3
expect 0 "$nothing" "$BRAID" train --solo run.yaml --resume ck

# without the optimizer
cp -rL ck/latest weights && rm "weights/$optimizer"
expect 0 "" "$BRAID" generate weights --tokens 3
write_run longer.yaml 's/iterations: 4/iterations: 8/'
expect 0 "its moments begin at zero" "$BRAID" train --solo longer.yaml --resume weights

# anew: nothing is lost
expect 0 "2 newer checkpoints were moved to '" "$BRAID" train --solo run.yaml --anew
entries ck "latest set-aside-1 step-000004 step-000006"
entries ck/set-aside-1 "latest step-000004 step-000006"
expect 0 "2 newer checkpoints were moved to '" timeout "$(scaled 20)" "$BRAID" up run.yaml --relays 2 --anew
entries ck "latest set-aside-1 set-aside-2 step-000004 step-000006"

# two runs at once; the lock ends with its process
write_run endless.yaml 's/iterations: 4/iterations: 100000/' '$a checkpoint: {dir: shared, every: 1}'
"$BRAID" train --solo endless.yaml >endless.txt 2>&1 &
first=$!
trap 'kill -9 $first 2>/dev/null || true' EXIT
for _ in $(seq "$(scaled 100)"); do [ -e shared/latest ] && break; sleep 0.1; done
expect 1 "process $first on $(uname -n) saves a run into '" timeout "$(scaled 8)" "$BRAID" train --solo endless.yaml --resume shared
kill -9 "$first"
expect 0 "" timeout "$(scaled 8)" "$BRAID" generate shared --tokens 3
newest=$(cd shared && ls -d step-?????? | tail -1)
expect 0 "weights " timeout "$(scaled 20)" "$BRAID" train --solo endless.yaml --resume shared --iterations $((10#${newest#step-} + 2))
entries shared "latest $(printf 'step-%06d step-%06d' $((10#${newest#step-} + 1)) $((10#${newest#step-} + 2)))"
finish
