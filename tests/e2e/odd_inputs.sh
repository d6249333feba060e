#!/bin/bash
# Texts that are not plain text, unlikely schedules, and descriptions behind links and pipes: notes and refusals.
. "$(dirname "$0")/lib.sh"

write_text words.txt
solo() { timeout "$(scaled 60)" "$BRAID" train --solo "$@" --threads 1; }
refused() { expect 2 "$1" solo run.yaml; }

# --- texts
write_run run.yaml
cp words.txt plain.txt
gzip -c plain.txt >words.txt && refused "run.yaml:11:9: data.text: cannot use '$PWD/words.txt': it is gzip-compressed; decompress it: gunzip $PWD/words.txt"
expect 2 "it is gzip-compressed" timeout "$(scaled 60)" "$BRAID" up run.yaml --relays 2
expect 2 "it is gzip-compressed" timeout "$(scaled 60)" "$BRAID" node --lead --run run.yaml
for encoding in UTF-16 UTF-16LE UTF-16BE UTF-32LE; do
    iconv -f UTF-8 -t $encoding plain.txt >words.txt && refused "it is encoded as $encoding; convert it: iconv -f $encoding -t UTF-8"
done
head -c 100000 "$BRAID" >words.txt && refused "it is a program"
head -c 100000 "$BRAID" | tail -c 50000 >words.txt && refused "it is binary data, not text"
{ printf '%%PDF-1.7\n' && cat plain.txt; } >words.txt && refused "it is a PDF document; make plain text of it: pdftotext"
: >words.txt && refused "it is empty"
rm words.txt && mkfifo words.txt && refused "it is a pipe"
rm words.txt && mkdir words.txt && refused "it is a directory"
rmdir words.txt && refused "it cannot be read: No such file or directory"
{ printf '\xef\xbb\xbf' && cat plain.txt; } >words.txt
expect 0 "words.txt begins with the byte order mark of UTF-8: its 3 bytes are kept" solo run.yaml
iconv -f UTF-8 -t UTF-8 plain.txt | sed 's/river/fl\xfcsse/' >words.txt  # Latin-1
expect 0 "weights " solo run.yaml
cp plain.txt words.txt

# --- schedules
write_run run.yaml 's/iterations: 4/iterations: 4\n  warmup: 40/'
expect 0 "train.warmup is 40 iterations and the run has 4: the learning rate still rises when the run ends" solo run.yaml
expect 0 "train.warmup is 40 iterations and the run has 4" timeout "$(scaled 60)" "$BRAID" up run.yaml --relays 2
write_run run.yaml
echo 'checkpoint: {dir: saved}' >>run.yaml
solo run.yaml >output
write_run longer.yaml 's/iterations: 4/iterations: 6/'
expect 0 "the learning rate jumps from 0.0001 in iteration 4 to 0.00" solo longer.yaml --resume saved
expect 0 "the schedule has 6 iterations now and had 4" timeout "$(scaled 60)" "$BRAID" up longer.yaml --relays 2 --resume saved
if solo run.yaml --resume saved 2>&1 | grep -q jumps; then echo "FAILED: the same schedule does not jump" && failures=$((failures + 1)); fi
write_run smooth.yaml 's/iterations: 4/iterations: 6\n  learning_rate: 0.0001\n  min_learning_rate: 0.0001\n  warmup: 0/'
solo smooth.yaml --resume saved >output
if grep -q jumps output; then echo "FAILED: what keeps the rate smooth does not" && failures=$((failures + 1)); fi
write_run run.yaml 's/microbatches: 4/microbatches: 700/; s/iterations: 4/iterations: 1/; s/slots: 4/slots: 1/'
head -c 20000 plain.txt >words.txt
expect 0 "one iteration reads 44800 bytes and the text has 18000 to train on" solo run.yaml
cp plain.txt words.txt

# --- descriptions: paths are relative to the given name
write_run run.yaml
echo 'checkpoint: {dir: here}' >>run.yaml
mkdir -p mounted/..2026 deep/er
mv run.yaml mounted/..2026/ && ln -s ..2026 mounted/..data && ln -s ..data/run.yaml mounted/run.yaml && cp words.txt mounted/
expect 0 "saved: $PWD/mounted/here/" solo mounted/run.yaml
rm -rf mounted/here  # a new run over these checkpoints would be refused
expect 0 "saved in $PWD/mounted/here/" timeout "$(scaled 60)" "$BRAID" up mounted/run.yaml --relays 2
in_folder() { (cd "$1" && shift && "$@"); }
rm -rf mounted/here
expect 0 "weights " in_folder deep/er solo ../../mounted/run.yaml
[ -d mounted/here ] || { echo "FAILED: saved elsewhere" && failures=$((failures + 1)); }
write_run run.yaml
expect 0 "weights " solo run.yaml
expect 0 "weights " solo .//run.yaml
write_run deep/er/run.yaml 's|words.txt|../../words.txt|'
ln -s deep/er link
expect 0 "weights " solo link/run.yaml
expect 0 "weights " in_folder deep solo er/../er/run.yaml
by_pipe() { cat run.yaml | solo /dev/stdin; }
by_redirection() { solo /dev/stdin <run.yaml; }
by_substitution() { solo <(cat run.yaml); }
swarm_by_pipe() { cat run.yaml | timeout "$(scaled 60)" "$BRAID" up /dev/stdin --relays 2; }
for how in by_pipe by_redirection by_substitution swarm_by_pipe; do expect 0 "weights " $how; done
expect 2 "--measure writes the path of the run's description" timeout "$(scaled 60)" "$BRAID" up <(cat run.yaml) --relays 2 --measure figures.yaml

# --- a temporary directory that is not there: keys of data peers with private data go into it
write_run private.yaml 's/text: words.txt/text: [words.txt, plain.txt]\n  private: 2/'
expect 1 "set TMPDIR to a directory that this user may write to" env TMPDIR=/nonexistent "$BRAID" up private.yaml --relays 2

finish
