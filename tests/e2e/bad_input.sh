#!/usr/bin/env bash
# A user's mistakes: exit status, and a message with place and remedy.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
write_text words.txt

# the command line
expect 2 "Usage: braid VERB" "$BRAID"
expect 0 "Usage: braid VERB" "$BRAID" --help
expect 0 "braid 0." "$BRAID" --version
expect 2 "unknown verb 'trian'; did you mean 'train'?" "$BRAID" trian
expect 0 "Examples:" "$BRAID" train --help
expect 2 "unknown flag --max-memroy; did you mean --max-memory?" "$BRAID" train --max-memroy 1G x.yaml
expect 2 "--threads: 'two' is not a whole number" "$BRAID" train --threads two x.yaml
expect 2 "--threads needs a value" "$BRAID" train --threads
expect 2 "RUN.yaml is missing" "$BRAID" train --solo
expect 2 "BRAID_THREADS: 0 is too small" env BRAID_THREADS=0 "$BRAID" train --solo x.yaml
expect 2 "add --solo" "$BRAID" train x.yaml

# the configuration file: one for all verbs; its keys are the flags of any verb
all_flags() {
    local verb
    {
        for verb in up node train plan generate chat eval tune convert merge inspect keygen tokenize sim "bench step" "bench generate"; do
            # shellcheck disable=SC2086 # a measurement is two words
            "$BRAID" $verb --help
        done
        for verb in f5 f7 churn t2 t3 t6 views scale repair keep serving; do "$BRAID_BENCH" $verb --help; done
    } | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' | sort -u | grep -vx -e help -e config
}
all_flags | sed 's/$/: 1/' >all.yaml
[ "$(wc -l <all.yaml)" -gt 30 ] || { echo "FAILED: few flags in --help"; failures=$((failures + 1)); }
grep -vx -e 'out: 1' -e 'force: 1' all.yaml >others.yaml
expect 0 "The peer's id:" "$BRAID" keygen --config others.yaml --out configured.key
echo "thread: 4" >slip.yaml
expect 2 "slip.yaml:1:1: unknown key 'thread'; did you mean 'threads'?" "$BRAID" keygen --config slip.yaml --out other.key

# descriptions of a run
solo() { "$BRAID" train --solo "$1"; }
expect 2 "none.yaml': No such file or directory" solo none.yaml
mistake() {  # text sed-script...
    local text=$1
    shift
    write_run bad.yaml "$@"
    expect 2 "$text" solo bad.yaml
}
mistake "bad.yaml:14:3: unknown key 'iteration' in 'train'; did you mean 'iterations'?" 's/iterations:/iteration:/'
mistake "bad.yaml:4:1: unknown key 'modle'; did you mean 'model'?" 's/^model:/modle:/'
mistake "bad.yaml:5:3: model.dim is missing" '/dim:/d'
mistake "bad.yaml:6:8: model.dim must be a whole number, not 'wide'" 's/dim: 32/dim: wide/'
mistake "bad.yaml:14:15: train.iterations must be a whole number, not '4.5'" 's/iterations: 4/iterations: 4.5/'
mistake "bad.yaml:3:9: stages add up to 3 blocks but model.layers is 2: make the two equal" 's/stages: .*/stages: [0, 1, 2]/'
mistake "bad.yaml:8:10: model.heads must be from 1 to" 's/heads: 2/heads: 0/'
mistake "bad.yaml:5:9: model:" 's/heads: 2/heads: 3/'
mistake "bad.yaml:11:9: data.text: cannot use" 's/words.txt/nowhere.txt/'
mistake "data.text is missing: add 'text: FILE' under 'data:'" '/text:/d'
mistake "swarm.routing 'swarm' is a baseline for comparisons, which only braid-bench runs; write braid or gwtf, or leave it out" 's/slots: 4/slots: 4\n  routing: swarm/'
mistake "not YAML" 's/stages: .*/stages: [0, 1/'
mistake "key 'seed' is given twice" 's/^name: small/seed: 1/'
: >empty.txt
mistake "it is empty" 's/words.txt/empty.txt/'
echo "too short" >short.txt
mistake "short" 's/words.txt/short.txt/'
head -c 5000 /dev/urandom >bad.yaml
expect 2 "bad.yaml:" solo bad.yaml

# output that cannot be written: code 1, even after a good run
write_run run.yaml
to_full() { "$BRAID" "$@" >/dev/full; }
unwritten="not all of the output could be written: No space left on device; free some space"
for words in --help --version "train --help" "train --solo run.yaml" "train --solo run.yaml --json" "up run.yaml --relays 2 --json" "plan run.yaml" "bench --help" "keygen --out unread.key"; do
    # shellcheck disable=SC2086
    expect 1 "$unwritten" to_full $words
done
expect 1 "$unwritten" to_full sim "$SOURCE"/examples/sim/partition.yaml --no-plan-join --iterations 1

# memory
expect 1 "the limit is 64 KiB; raise --max-memory to at least" "$BRAID" train --solo run.yaml --max-memory 64K

# braid plan
expect 2 "RUN.yaml is missing" "$BRAID" plan
expect 2 "none.yaml': No such file or directory" "$BRAID" plan none.yaml
expect 0 "braid train --solo needs" "$BRAID" plan run.yaml
expect 0 '"capacity":0}' "$BRAID" plan run.yaml --max-memory 64K --json
solo_bytes=$("$BRAID" plan run.yaml --json --threads 2 | grep -o '"solo_bytes":[0-9]*' | grep -o '[0-9]*')
expect 0 "weights " "$BRAID" train --solo run.yaml --threads 2 --max-memory "$solo_bytes"
expect 1 "raise --max-memory" "$BRAID" train --solo run.yaml --threads 2 --max-memory $((solo_bytes - 1))

# checkpoints
expect 0 "weights " "$BRAID" train --solo run.yaml --save saved --threads 1
expect 1 "nowhere" "$BRAID" generate nowhere
damaged() {  # copies the good checkpoint for a test to damage
    rm -rf damaged
    cp -rL saved/latest damaged
}
weights=model-00001-of-00001.safetensors
damaged
truncate -s -100 "damaged/$weights"
expect 1 "$weights" "$BRAID" generate damaged
damaged
printf 'x' | dd of="damaged/$weights" bs=1 seek=5000 conv=notrunc status=none
expect 1 "$weights" "$BRAID" generate damaged
damaged
rm "damaged/$weights"
expect 1 "$weights" "$BRAID" generate damaged
damaged
echo '{"model_type": "llama"' >damaged/config.json
expect 1 "config.json" "$BRAID" generate damaged
damaged
rm damaged/braid-manifest.json
expect 1 "manifest" "$BRAID" train --solo run.yaml --resume damaged
damaged
truncate -s -1 damaged/optimizer-00001-of-00001.safetensors
expect 2 "optimizer-00001-of-00001.safetensors' has" "$BRAID" train --solo run.yaml --resume damaged
write_run wider.yaml 's/dim: 32/dim: 64/'
expect 2 "is of another model: its dim is 32, the run's is 64" "$BRAID" train --solo wider.yaml --resume saved

# an unusable directory for checkpoints: refused before any computation
write_run endless.yaml 's/iterations: 4/iterations: 100000/'
touch plain
expect 1 "cannot open the directory 'plain' for checkpoints: Not a directory; choose another" timeout "$(scaled 8)" "$BRAID" train --solo endless.yaml --save plain
expect 1 "cannot make the directory 'no/where' for checkpoints: No such file or directory; create its parent directory" timeout "$(scaled 8)" "$BRAID" train --solo endless.yaml --save no/where
for where in plain no/where; do
    write_run unsaved.yaml 's/iterations: 4/iterations: 100000/' 's|slots: 4|slots: 4\n  data_peers: 2|' "\$a checkpoint: {dir: $where}"
    expect 1 "/$where' for checkpoints:" timeout "$(scaled 8)" "$BRAID" up unsaved.yaml --relays 2
done

# sampling and keys
expect 2 "--top-p: 2 is too large: at most 1" "$BRAID" generate saved --top-p 2
expect 2 "--temperature: -1 is too small: at least 0" "$BRAID" generate saved --temperature=-1
expect 2 "MODEL is missing" "$BRAID" generate
expect 0 "the" "$BRAID" generate saved --prompt the --tokens 5 --int8
expect 0 "int8 " "$BRAID" bench generate saved --text run.yaml --bytes 50
expect 0 '"bytes":50' "$BRAID" bench generate saved --text run.yaml --bytes 50 --json
expect 2 "--voters 2: an even number" "$BRAID" up run.yaml --voters 2
expect 2 "--voters 4: an even number" "$BRAID" node --lead --run run.yaml --voters 4
expect 2 "the run has no stage 9" "$BRAID" up run.yaml --shadows 1 --kill stage:9@iteration:2
expect 2 "carry; a time is iteration:12, or iteration:12/POINT" "$BRAID" up run.yaml --relays 4 --kill relay3@iter:12
expect 2 "--kill relay9@iteration:2: there is no relay9: the relays are relay1 to relay7" "$BRAID" up run.yaml --relays 4 --late 3@iteration:1 --kill relay9@iteration:2
expect 2 "--kill any@iteration:2: each stage has one relay" "$BRAID" up run.yaml --relays 2 --kill any@iteration:2
expect 2 "--kill data2@iteration:2: the run has one data peer" "$BRAID" up run.yaml --relays 2 --kill data2@iteration:2
write_run pair.yaml 's|slots: 4|slots: 4\n  data_peers: 2|'
expect 2 "--kill data5@iteration:2: there is no data5: the data peers are data1 (the first leader) to data2" "$BRAID" up pair.yaml --relays 2 --kill data5@iteration:2
expect 2 "--kill data1@iteration:2: data1 has the only vote" "$BRAID" up pair.yaml --relays 2 --voters 1 --kill data1@iteration:2
expect 2 "--kill any@iteration:4: the run ends after iteration 4" "$BRAID" up run.yaml --relays 2 --kill any@iteration:4
expect 2 "cannot listen on \"127.0.0.1:99999\": its port, 99999, is more than 65535" "$BRAID" node --lead --run run.yaml --listen 127.0.0.1:99999
expect 2 "--late 2@iteration:99: the run ends after iteration 4" "$BRAID" up run.yaml --relays 2 --late 2@iteration:99
expect 2 "--text FILE is missing" "$BRAID" bench generate saved
expect 1 "cannot open the text nowhere" "$BRAID" bench generate saved --text nowhere
expect 2 "--cell is hom0" "$BRAID_BENCH" t3 --cell hom5
expect 2 "--cell: the value is empty; give one, or leave the flag out" "$BRAID_BENCH" t2 --cell ''

# the experiments are in another program
expect 2 "braid bench: f7 moved to the program braid-bench: run 'braid-bench f7' with the same flags" "$BRAID" bench f7 --seeds 1
expect 2 "braid bench: unknown measurement 'setp'; did you mean 'step'?" "$BRAID" bench setp
expect 2 "Usage: braid-bench EXPERIMENT" "$BRAID_BENCH"
expect 0 "braid-bench 0." "$BRAID_BENCH" --version
expect 2 "braid-bench: unknown experiment 'f8'; did you mean 'f7'?" "$BRAID_BENCH" f8

# empty lists of experiments
expect 2 "--tests: there is no ''; name some of 1, 2, 3, 4, 5 and 6, with commas between them" "$BRAID_BENCH" f7 --tests ''
expect 2 "--delays: there is no ''; name some of lockstep, uniform, exponential and heavy-tailed" "$BRAID_BENCH" f7 --delays ''
expect 2 "--systems: there is no ''; name some of swarm, gwtf and braid" "$BRAID_BENCH" f7 --systems ''
expect 2 "--demand is equal or free, not ''" "$BRAID_BENCH" f7 --demand ''
expect 2 "--objective is sum or worst, not 'sum,worst'" "$BRAID_BENCH" f7 --objective sum,worst
expect 2 "--tests: there is no ''; name some of 1, 2, 3 and 4" "$BRAID_BENCH" churn --tests ''
expect 2 "--tests: there is no '5'; name some of 1, 2, 3 and 4" "$BRAID_BENCH" churn --tests 1,5
expect 2 "--delay is lockstep, uniform, exponential or heavy-tailed, not ''" "$BRAID_BENCH" t6 --delay ''
expect 2 "--peers is a list of at most 12 numbers from 9 to 16001, with commas between them, not ''" "$BRAID_BENCH" scale --peers ''
expect 2 "--relays is a list of at most 8 numbers from 8 to 20000, with commas between them, not '40,'" "$BRAID_BENCH" views --relays 40,

# output files: tested for writing before the run, without a change to them
for experiment in f5 f7 t6 views scale repair; do
    # shellcheck disable=SC2086 # with its flags
    expect 1 "--plot: cannot write 'no/where.svg': No such file or directory; name another file" timeout "$(scaled 20)" "$BRAID_BENCH" $experiment --seeds 1000 --plot no/where.svg
done
expect 1 "--plot: cannot write '.': Is a directory" "$BRAID_BENCH" t3 --plot .
expect 1 "--dump: cannot write into the folder 'plain': " "$BRAID_BENCH" t2 --dump plain
expect 1 "--dump: cannot write into the folder 'no/where': No such file or directory; name another one" "$BRAID_BENCH" t6 --dump no/where
expect 1 "--measure: cannot write 'no/where.yaml': No such file or directory" timeout "$(scaled 20)" "$BRAID" up endless.yaml --relays 2 --measure no/where.yaml
echo "as it was" >old.svg
for file in new.svg old.svg; do timeout 1 "$BRAID_BENCH" f7 --seeds 100000 --tests 1 --plot $file >/dev/null || true; done
[ "$(cat old.svg)" = "as it was" ] && [ ! -e new.svg ] || { echo "FAILED: a run that did not end has written figures"; failures=$((failures + 1)); }
expect 0 "F7 test 1" "$BRAID_BENCH" f7 --seeds 1 --tests 1 --plot old.svg
grep -q "</svg>" old.svg || { echo "FAILED: no figure was written"; failures=$((failures + 1)); }
expect 0 "The peer's id:" "$BRAID" keygen --out peer.key
[ "$(stat -c %a peer.key)" = 600 ] || { echo "FAILED: others can read the key"; failures=$((failures + 1)); }
expect 1 "peer.key exists" "$BRAID" keygen --out peer.key
expect 1 "No such file or directory" "$BRAID" keygen --out nowhere/peer.key

# peers
expect 1 "; write host:port with an address of this machine, as in 0.0.0.0:4711" "$BRAID" node --lead --run run.yaml --listen nonsense
expect 2 "the ticket is malformed" "$BRAID" node --join nonsense
expect 2 "none.yaml': No such file or directory" "$BRAID" up none.yaml
echo "not a key" >spoilt.key
expect 1 "spoilt.key" "$BRAID" node --lead --run run.yaml --identity spoilt.key

# a log in the wrong place
mkfifo pipe
for place in pipe . /dev/null; do
    expect 1 "is not a plain file; name another file for the log" timeout -k 1 "$(scaled 10)" "$BRAID" node --lead --run run.yaml --identity peer.key --log $place
done

# a full disk: the run says so, and the older checkpoint stays
write_run longer.yaml 's/iterations: 4/iterations: 6/'
before=$(readlink saved/latest)
full_disk() { (ulimit -f 16 && exec "$BRAID" train --solo longer.yaml --resume saved --save saved); }
expect 1 "braid train: the last checkpoint could not be written: cannot write" full_disk
expect 1 "/$weights': File too large" full_disk
[ "$(readlink saved/latest)" = "$before" ] || { echo "FAILED: latest moved"; failures=$((failures + 1)); }
expect 0 "" "$BRAID" generate saved --tokens 10
leave_full_disk() { (ulimit -f 4 && exec "$BRAID" up run.yaml --relays 2 --voters 1); }
write_run run.yaml '$a checkpoint: {dir: swarm-saved}'
expect 1 "File too large" leave_full_disk
write_run two.yaml 's|slots: 4|slots: 4\n  data_peers: 2|' '$a checkpoint: {dir: swarm-saved}'
leave_full_disk_to_others() { (ulimit -f 4 && exec "$BRAID" up two.yaml --relays 2 >/dev/null); }  # only the last message
expect 1 "File too large" leave_full_disk_to_others

# a text that is truncated during the run
write_run endless.yaml 's/iterations: 4/iterations: 100000/'
cleared() {
    cp words.txt own.txt
    sed -i 's/words.txt/own.txt/' endless.yaml
    (sleep 0.5 && : >own.txt) &
    timeout "$(scaled 8)" "$BRAID" "$@"  # the run does not wait for peers without news of the failure
}
expect 1 "own.txt' is not what the run began with any more" cleared train --solo endless.yaml
expect 1 "own.txt' is not what the run began with any more" cleared up endless.yaml --relays 2

full_log() { (ulimit -f 0 && exec "$BRAID" node --lead --run run.yaml --identity peer.key --log full.log) 2>&1 | cat; }
expect 1 "the log full.log: cannot write: File too large; raise the limit on file sizes" full_log

few_files() { (limit=$(scaled 10) && ulimit -n "$1" && exec timeout -k 1 "$limit" "$BRAID" up run.yaml --relays 2); }
for files in 6 8 20; do expect 2 "$files are allowed; raise the limit (ulimit -n)" few_files $files; done

# too little memory or stack: a sentence and a code at any point. A sanitizer's own memory does not fit in any limit.
write_run lean.yaml
within() { (limit=$(scaled 10) && ulimit "$1" "$2" && shift 2 && exec timeout -k 1 "$limit" "$BRAID" "$@"); }
said_so() {  # limit kilobytes words...
    local status=0
    within "$@" >output 2>complaint || status=$?
    case $status in
    0) ;;
    1 | 2 | 127) grep -q -e memory -e thread -e stack -e 'shared librar' complaint || status=silent ;;
    esac
    case $status in 0 | 1 | 2 | 127) return ;; esac
    echo "FAILED: within $*: $status and: $(cat complaint)"
    failures=$((failures + 1))
}
if within -v 300000 --version >/dev/null 2>&1; then
    for limit in 14000 16000 17000 18000 20000 24000 28000; do said_so -v $limit train --solo lean.yaml --threads 1; done
    for limit in 16000 20000 30000 40000 50000 60000 70000; do said_so -v $limit up lean.yaml --relays 2; done
    expect 1 "bytes more were wanted; make some free, raise the limit (ulimit -v)" within -v 40000 sim "$SOURCE"/examples/sim/partition.yaml --iterations 1
    expect 1 "a stack may have 1024 KiB here" within -s 1024 train --solo lean.yaml
    expect 0 "weights " within -Ss 200 train --solo lean.yaml --threads 2
    expect 0 "weights " within -Ss 200 up lean.yaml --relays 2
fi

# standard streams closed by the caller
without_streams() { (exec "$BRAID" up run.yaml --relays 2 <&- >&- 2>&-) && echo "ended well"; }
expect 0 "ended well" without_streams
expect 0 "the" "$BRAID" generate swarm-saved --prompt the --tokens 10

finish
