#!/usr/bin/env python3
"""tools/serve-kills, short: six peers in network namespaces hold two copies of three spans, and one or two are killed about every
60 tokens. 0 of 24 texts are lost or changed."""
import os
import shutil
import subprocess
import sys

from linelib import enter

RUN = """name: small
seed: 7
stages: [0, 3]
model: {arch: llama, dim: 64, layers: 3, heads: 4, context: 128}
data: {text: words.txt, holdout: 0.1}
train: {iterations: 3, microbatches: 2, sequences: 2}
"""


def main():
    enter()
    braid = os.environ["BRAID"]
    shutil.rmtree("models", ignore_errors=True)  # of an earlier run
    os.mkdir("models")
    os.chdir("models")
    with open("words.txt", "w", encoding="ascii") as file:
        file.write("the river bends round every stone that lies in its way\n" * 400)
    with open("saved.yaml", "w", encoding="ascii") as file:
        file.write(RUN)
    for command in (["train", "--solo", "saved.yaml", "--save", "saved", "--threads", "1"], ["convert", "saved", "saved.gguf", "--to", "f32"]):
        subprocess.run([braid, *command], check=True, stdout=subprocess.DEVNULL)
    tool = os.path.join(os.environ["SOURCE"], "tools", "serve-kills")
    sys.exit(subprocess.run([tool, "saved.gguf", "3", "--sessions", "24", "--back", "0.5"], check=False).returncode)


main()
