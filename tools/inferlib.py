"""Shared by tools/check-infer and tools/bench-infer: the two programs that they drive, and a prompt list."""
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = ["infer", "weights", "text", "format", "model", "tensor", "base"]
PROMPTS = [
    "The capital of France is",
    "Water boils at a temperature of",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "To make a cup of tea, first",
    "Q: How many legs does a spider have?\nA:",
    "In 1969, the first people",
    "The opposite of hot is",
    "A haiku about autumn:\n",
    "The quick brown fox",
    "My favourite book is about",
    "2 + 2 =",
    "The largest planet in the solar system is",
    "Dear Sir or Madam,\n\n",
    "Photosynthesis is the process by which",
    "SELECT name FROM",
    "An apple a day",
    "The weather tomorrow will be",
    "List of animals: cat, dog,",
]


def build_braid(folder, build=os.path.join(ROOT, "build/release")):
    """The program of tools/bench-infer-braid.c, from a release build."""
    out = os.path.join(folder, "bench-infer-braid")
    libraries = ["-lbraid_" + room for room in ROOMS]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I" + ROOT + "/src", ROOT + "/tools/bench-infer-braid.c", "-o", out, "-L" + build]
                   + libraries + ["-lpcre2-8", "-lutf8proc", "-lm", "-lpthread"], check=True)
    return out


def build_llama(folder, source, libraries):
    """The program of tools/bench-infer-llama.c, with llama.cpp's source folder and the folder of its libraries."""
    out = os.path.join(folder, "bench-infer-llama")
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-I" + source + "/include", "-I" + source + "/ggml/include",
                    ROOT + "/tools/bench-infer-llama.c", "-o", out, "-L" + libraries, "-lllama", "-lggml", "-lggml-base",
                    "-lggml-cpu", "-Wl,-rpath," + libraries, "-lm"], check=True)
    return out


class Program:
    """A running program: a line in, a line out."""

    def __init__(self, *command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(environment or {})))

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("%s ended" % self.process.args[0])
        return answer.split()

    def logits(self, ids, vocab):
        import numpy
        with tempfile.NamedTemporaryFile() as file:
            self.ask("logits", file.name, *ids)
            return numpy.fromfile(file.name, dtype=numpy.float32).reshape(len(ids), vocab)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
