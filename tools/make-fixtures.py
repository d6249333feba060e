#!/usr/bin/env python3
"""Makes tests/golden/fixtures: small LLaMA and GPT models with loss, logits and gradients by
PyTorch in fp64. Needs PyTorch (any recent version; the CPU build is enough).

    python3 tools/make-fixtures.py tests/golden/fixtures

A fixture: 8 bytes "BRAIDFX1"; 12 x u32 (arch, dim, layers, heads, kv_heads, ffn_dim, vocab, context, tied, sequences,
tokens, entries); 2 x f32 (rope_theta, norm_eps); then per entry 96 bytes of name, u64 count, count x f32. Little-endian.
Entries: tokens, targets, loss (sum over counted tokens), logits, p:NAME for each parameter, g:NAME for its gradient.
"""
import math
import struct
import sys
from pathlib import Path

import torch

CASES = {
    "llama-gqa-tied": dict(arch="llama", dim=24, layers=2, heads=4, kv_heads=2, ffn_dim=40, vocab=37, context=16, tied=1, sequences=3, tokens=7),
    "llama-untied-long": dict(arch="llama", dim=20, layers=2, heads=2, kv_heads=2, ffn_dim=33, vocab=29, context=70, tied=0, sequences=2, tokens=70),
    "llama-mqa-odd": dict(arch="llama", dim=30, layers=3, heads=5, kv_heads=1, ffn_dim=17, vocab=41, context=9, tied=0, sequences=1, tokens=5),
    "gpt-tied": dict(arch="gpt", dim=20, layers=2, heads=4, kv_heads=4, ffn_dim=80, vocab=31, context=16, tied=1, sequences=2, tokens=11),
    "gpt-untied-long": dict(arch="gpt", dim=18, layers=2, heads=3, kv_heads=3, ffn_dim=50, vocab=23, context=70, tied=0, sequences=2, tokens=66),
}
ROPE_THETA, NORM_EPS = 10000.0, 1e-5


def shapes(c):
    """Hugging Face's names and shapes, in canonical order."""
    d, f, v = c["dim"], c["ffn_dim"], c["vocab"]
    kv = d // c["heads"] * c["kv_heads"]
    if c["arch"] == "llama":
        yield "model.embed_tokens.weight", (v, d)
        for i in range(c["layers"]):
            p = f"model.layers.{i}."
            yield p + "input_layernorm.weight", (d,)
            yield p + "self_attn.q_proj.weight", (d, d)
            yield p + "self_attn.k_proj.weight", (kv, d)
            yield p + "self_attn.v_proj.weight", (kv, d)
            yield p + "self_attn.o_proj.weight", (d, d)
            yield p + "post_attention_layernorm.weight", (d,)
            yield p + "mlp.gate_proj.weight", (f, d)
            yield p + "mlp.up_proj.weight", (f, d)
            yield p + "mlp.down_proj.weight", (d, f)
        yield "model.norm.weight", (d,)
    else:
        yield "transformer.wte.weight", (v, d)
        yield "transformer.wpe.weight", (c["context"], d)
        for i in range(c["layers"]):
            p = f"transformer.h.{i}."
            for name, shape in [("ln_1", (d,)), ("attn.c_attn", (d, 3 * d)), ("attn.c_proj", (d, d)),
                                ("ln_2", (d,)), ("mlp.c_fc", (d, f)), ("mlp.c_proj", (f, d))]:
                yield p + name + ".weight", shape
                yield p + name + ".bias", shape[-1:]
        yield "transformer.ln_f.weight", (d,)
        yield "transformer.ln_f.bias", (d,)
    if not c["tied"]:
        yield "lm_head.weight", (v, d)


def make_parameters(c, random):
    result = {}
    for name, shape in shapes(c):
        values = torch.randn(shape, generator=random, dtype=torch.float32)
        is_norm = len(shape) == 1 and not name.endswith(".bias")
        values = values * 0.2 + 1.0 if is_norm else values * (0.1 if len(shape) == 1 else 0.35)
        result[name] = values.double().requires_grad_(True)
    return result


def rms_norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + NORM_EPS) * weight


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + NORM_EPS) * weight + bias


def rotate(x):
    """x[sequences, heads, tokens, width]: element i turns with element i + width / 2."""
    tokens, width = x.shape[-2:]
    rate = ROPE_THETA ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(tokens, dtype=torch.float64)[:, None] * rate
    low, high = x[..., : width // 2], x[..., width // 2:]
    return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], -1)


def attend(q, k, v, c, rope):
    b, t, width = q.shape[0], q.shape[1], c["dim"] // c["heads"]
    q, k, v = (x.reshape(b, t, -1, width).transpose(1, 2) for x in (q, k, v))
    if rope:
        q, k = rotate(q), rotate(k)
    group = c["heads"] // c["kv_heads"]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(width)
    scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1)


def llama(p, c, tokens):
    x = p["model.embed_tokens.weight"][tokens]
    for i in range(c["layers"]):
        w = lambda name: p[f"model.layers.{i}.{name}.weight"]
        n = rms_norm(x, w("input_layernorm"))
        q, k, v = (n @ w(f"self_attn.{j}_proj").T for j in "qkv")
        x = x + attend(q, k, v, c, rope=True) @ w("self_attn.o_proj").T
        n = rms_norm(x, w("post_attention_layernorm"))
        gate, up = n @ w("mlp.gate_proj").T, n @ w("mlp.up_proj").T
        x = x + (gate * torch.sigmoid(gate) * up) @ w("mlp.down_proj").T
    x = rms_norm(x, p["model.norm.weight"])
    return x @ p["model.embed_tokens.weight" if c["tied"] else "lm_head.weight"].T


def gpt(p, c, tokens):
    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][: tokens.shape[1]]
    for i in range(c["layers"]):
        w = lambda name: (p[f"transformer.h.{i}.{name}.weight"], p[f"transformer.h.{i}.{name}.bias"])
        linear = lambda y, name: y @ w(name)[0] + w(name)[1]
        q, k, v = linear(layer_norm(x, *w("ln_1")), "attn.c_attn").chunk(3, -1)
        x = x + linear(attend(q, k, v, c, rope=False), "attn.c_proj")
        h = linear(layer_norm(x, *w("ln_2")), "mlp.c_fc")
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + linear(h, "mlp.c_proj")
    x = layer_norm(x, p["transformer.ln_f.weight"], p["transformer.ln_f.bias"])
    return x @ p["transformer.wte.weight" if c["tied"] else "lm_head.weight"].T


def make_fixture(name, c, seed):
    random = torch.Generator().manual_seed(seed)
    p = make_parameters(c, random)
    size = (c["sequences"], c["tokens"])
    tokens = torch.randint(0, c["vocab"], size, generator=random)
    targets = torch.randint(0, c["vocab"], size, generator=random)
    targets[torch.rand(size, generator=random) < 0.2] = -1
    logits = (llama if c["arch"] == "llama" else gpt)(p, c, tokens)
    counted = targets >= 0
    loss = -logits.log_softmax(-1)[counted].gather(-1, targets[counted][:, None]).sum()
    loss.backward()

    entries = {"tokens": tokens, "targets": targets, "loss": loss, "logits": logits}
    entries.update({"p:" + k: v for k, v in p.items()})
    entries.update({"g:" + k: v.grad for k, v in p.items()})
    keys = ["dim", "layers", "heads", "kv_heads", "ffn_dim", "vocab", "context", "tied", "sequences", "tokens"]
    data = b"BRAIDFX1" + struct.pack("<12I", 0 if c["arch"] == "llama" else 1, *(c[k] for k in keys), len(entries))
    data += struct.pack("<2f", ROPE_THETA, NORM_EPS)
    for key, value in entries.items():
        flat = value.detach().float().flatten()
        data += struct.pack("<96sQ", key.encode(), flat.numel()) + struct.pack(f"<{flat.numel()}f", *flat.tolist())
    return data


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, c) in enumerate(CASES.items(), start=1):
        data = make_fixture(name, c, seed)
        (folder / f"{name}.bin").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


main()
