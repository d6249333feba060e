#!/usr/bin/env python3
"""Prints tests/golden/train_pytorch.h: the loss of each of a few training iterations of tiny LLaMA and GPT models, and the
norm of each tensor at the end, by PyTorch in fp64. Text, samples, first weights, schedule and recipe follow the rules of
tests/unit/train_tiny.h and src/train. Needs PyTorch (the CPU build is enough).

    python3 tools/make-train-fixture.py > tests/golden/train_pytorch.h
"""
import math
import textwrap
import types
from pathlib import Path

import torch

# The models of make-fixtures.py, without its last line, which writes the fixtures.
models = types.SimpleNamespace()
exec(Path(__file__).with_name("make-fixtures.py").read_text().removesuffix("\nmain()\n"), vars(models))

MASK, STEP = (1 << 64) - 1, 0x9E3779B97F4A7C15
CASES = {
    "llama": dict(arch="llama", dim=32, layers=3, heads=4, kv_heads=2, ffn_dim=48, vocab=256, context=32, tied=1),
    "gpt": dict(arch="gpt", dim=32, layers=3, heads=4, kv_heads=4, ffn_dim=48, vocab=256, context=32, tied=1),
}
ITERATIONS, MICROBATCHES, SEQUENCES, TOKENS, SEED = 8, 4, 2, 16, 3
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0
RATE, LOWEST, WARMUP, END = 0.01, 0.001, 2, 12
WORDS = [b"the ", b"river ", b"braids ", b"and ", b"splits ", b"again ", b"\n"]


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def seeded(seed, value):
    return mix(seed ^ mix(value + STEP & MASK))


def below(state, bound):
    """One number from a fresh generator."""
    return mix(state + STEP & MASK) * bound >> 64


def make_text(count):
    text, state = b"", 5
    while len(text) < count:
        text += WORDS[below(state, 7)]
        state = state + STEP & MASK
    return text[:count]


def sample(text, iteration, m):
    stream = seeded(seeded(seeded(SEED, 0x7472), iteration), m)
    starts = [below(seeded(stream, s), len(text) - TOKENS) for s in range(SEQUENCES)]
    return torch.tensor([list(text[at: at + TOKENS + 1]) for at in starts])


def first_weights(c):
    """As first_weight in tests/golden/train_pytorch.c."""
    result = {}
    for canonical, (name, shape) in enumerate(models.shapes(c)):
        key = seeded(9, canonical)
        values = [(mix(seeded(key, i) + STEP & MASK) >> 40) / 2**24 * 0.2 - 0.1 for i in range(math.prod(shape))]
        values = torch.tensor(values, dtype=torch.float32).double().reshape(shape)
        if len(shape) == 1 and not name.endswith(".bias"):
            values = (values.float() + 1).double()
        result[name] = values.requires_grad_(True)
    return result


def rate(t):
    if t < WARMUP:
        return RATE * (t + 1) / WARMUP
    return LOWEST + (RATE - LOWEST) * 0.5 * (1 + math.cos(math.pi * (t - WARMUP) / (END - 1 - WARMUP)))


def norm(name, weight):
    """Leaves out the keys' bias. It shifts all scores of a query alike, so its gradient is rounding noise, which AdamW turns into
    steps."""
    if name.endswith("c_attn.bias"):
        queries, _, values = weight.chunk(3)
        weight = torch.cat((queries, values))
    return weight.norm().item()


def train(c, text):
    p = first_weights(c)
    optimizer = torch.optim.AdamW([
        {"params": [w for w in p.values() if w.dim() == 2], "weight_decay": DECAY},
        {"params": [w for w in p.values() if w.dim() == 1], "weight_decay": 0.0},
    ], betas=BETAS, eps=EPS)
    losses = []
    for t in range(ITERATIONS):
        batch = torch.cat([sample(text, t, m) for m in range(MICROBATCHES)])
        logits = (models.llama if c["arch"] == "llama" else models.gpt)(p, c, batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, c["vocab"]), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate(t)
        optimizer.step()
        losses.append(loss.item())
    return losses, [norm(name, w.detach()) for name, w in p.items()]


def row(name, values):
    text = ", ".join(f"{v:.12g}" for v in values)
    print(textwrap.fill(f"static const double {name}[] = {{{text}}};", 120, subsequent_indent="    "))


def main():
    text = make_text(20000)[:18000]
    print("// Made by tools/make-train-fixture.py; PyTorch", torch.__version__.split("+")[0])
    print(f"enum {{ PYTORCH_ITERATIONS = {ITERATIONS} }};")
    for name, c in CASES.items():
        losses, norms = train(c, text)
        row(f"pytorch_{name}_losses", losses)
        row(f"pytorch_{name}_norms", norms)


if __name__ == "__main__":
    main()
