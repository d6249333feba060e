"""A small model for tests of servers."""

import os
import subprocess

BRAID = os.path.abspath(os.environ.get("BRAID", "build/release/braid"))


def make_model(folder):
    words = os.path.join(folder, "words.txt")
    with open(words, "w", encoding="ascii") as file:
        file.write("the river bends round every stone that lies in its way\n" * 400)
    run, saved = os.path.join(folder, "small.yaml"), os.path.join(folder, "saved")
    with open(run, "w", encoding="ascii") as file:
        file.write(f"seed: 7\nstages: [0, 3]\nmodel: {{dim: 64, layers: 3, heads: 4, context: 128}}\ndata: {{text: {words}, holdout: 0.1}}\n")
        file.write("train: {iterations: 1, microbatches: 2, sequences: 2}\n")
    subprocess.run([BRAID, "train", "--solo", run, "--save", saved, "--threads", "1"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([BRAID, "convert", saved, saved + ".gguf", "--to", "f32"], check=True, stdout=subprocess.DEVNULL)
    return saved + ".gguf"
