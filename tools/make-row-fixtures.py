#!/usr/bin/env python3
"""Makes tests/golden/fixtures/row-*.bin: tiny models of each architecture that braid computes, with config.json, loss,
logits and gradients by transformers. Needs transformers 5.23.0 and PyTorch 2.15 (the CPU build is enough).

    python3 tools/make-row-fixtures.py tests/golden/fixtures

A fixture: 8 bytes "BRAIDFX2"; 4 x u32 (length of config.json, sequences, tokens, entries); config.json as transformers
saves it; then per entry 96 bytes of name, u64 count, count x f32. Little-endian. Entries: tokens, targets, loss (sum over
counted tokens), logits, and g:NAME, the gradient of each parameter, with the names of the saved file. Parameters are not
stored: `parameter` makes them from name and position, and tests/golden/model_rows.c does the same.
"""
import json
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

torch.cuda.is_current_stream_capturing = lambda: False  # asked even where there is no GPU

SMALL = dict(hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=23, max_position_embeddings=160, pad_token_id=None, bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=40)
TWO_ROPES = dict(full_attention=dict(rope_type="linear", rope_theta=1000.0, factor=2.0),
                 sliding_attention=dict(rope_type="default", rope_theta=50.0))
# name: class of the config, its members beside SMALL, (sequences, tokens)
CASES = {
    "llama-llama3": ("Llama", dict(head_dim=6, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3), (2, 60)),
    "llama-linear": ("Llama", dict(tie_word_embeddings=True, rope_parameters=dict(rope_type="linear", factor=3.0)), (1, 30)),
    "llama-yarn": ("Llama", dict(head_dim=16, num_key_value_heads=4, rope_parameters=YARN), (1, 50)),
    "mistral": ("Mistral", dict(sliding_window=20, head_dim=8), (1, 150)),
    "mistral-plain": ("Mistral", dict(sliding_window=None, rms_norm_eps=1e-5), (3, 7)),
    "qwen2": ("Qwen2", dict(use_sliding_window=True, sliding_window=9, max_window_layers=1, tie_word_embeddings=True), (2, 55)),
    "qwen3": ("Qwen3", dict(head_dim=10, attention_bias=True), (2, 53)),
    "qwen3-window": ("Qwen3", dict(head_dim=8, num_key_value_heads=1, use_sliding_window=True, sliding_window=40,
                                   layer_types=["sliding_attention", "full_attention"]), (1, 135)),
    "smollm3": ("SmolLM3", dict(no_rope_layers=[1, 0], mlp_bias=True), (2, 20)),
    "smollm3-window": ("SmolLM3", dict(no_rope_layer_interval=2, use_sliding_window=True, sliding_window=5), (1, 20)),
    "gemma3": ("Gemma3Text", dict(head_dim=8, num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=20,
                                  layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                  rope_parameters=TWO_ROPES, final_logit_softcapping=3.0, tie_word_embeddings=True), (2, 51)),
    "gemma2": ("Gemma2", dict(head_dim=8, sliding_window=70, query_pre_attn_scalar=8, attn_logit_softcapping=2.0,
                              final_logit_softcapping=5.0), (1, 140)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=8), (2, 21)),
    "qwen3-moe": ("Qwen3Moe", dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=9, head_dim=8), (2, 13)),
    "qwen3-moe-norm": ("Qwen3Moe", dict(num_experts=11, num_experts_per_tok=4, moe_intermediate_size=6, head_dim=8,
                                        norm_topk_prob=True, attention_bias=True), (1, 5)),
}


def parameter(name, shape, plus_one):
    """Values in [-1, 1) from a hash of the name and the position, scaled and for norms moved to their neutral value."""
    state = np.uint64(0xcbf29ce484222325)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            state = (state ^ np.uint64(byte)) * np.uint64(0x100000001b3)
        x = state + np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        x ^= x >> np.uint64(31)
    unit = (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if len(shape) > 1:
        values = unit * 0.5
    elif name.endswith(".bias"):
        values = unit * 0.25
    else:
        values = unit * 0.25 + (0 if plus_one else 1)
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def in_memory(name, kind):
    """The parameter of the model that holds a tensor of the file: name, expert or None, slice of its rows."""
    part = name.split(".")
    if "experts" not in part:
        return name.replace("block_sparse_moe", "mlp"), None, None
    at = part.index("experts")
    prefix = ".".join(part[:at]).replace("block_sparse_moe", "mlp") + ".experts."
    which = {"w1": 0, "gate_proj": 0, "w3": 1, "up_proj": 1}.get(part[at + 2])
    return prefix + ("down_proj" if which is None else "gate_up_proj"), int(part[at + 1]), which


def view(values, name, kind):
    """The part of a parameter, or of its gradient, that a tensor of the file is."""
    _, expert, which = in_memory(name, kind)
    if expert is None:
        return values
    rows = values[expert]
    half = rows.shape[0] // 2
    return rows if which is None else rows[which * half:(which + 1) * half]


def make_model(kind, members):
    config = getattr(transformers, kind + "Config")(**{**SMALL, **members})
    config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        names = {name: tuple(v.shape) for name, v in load_file(Path(folder) / "model.safetensors").items()}
        text = (Path(folder) / "config.json").read_text()
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, shape in names.items():
            target = view(own[in_memory(name, kind)[0]], name, kind)
            target.copy_(parameter(name, shape, kind.startswith("Gemma")))
    return model, names, text


def make_fixture(kind, members, size, seed):
    model, names, text = make_model(kind, members)
    model.train()  # no layer of these drops anything out
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, SMALL["vocab_size"], size, generator=random)
    targets = torch.randint(0, SMALL["vocab_size"], size, generator=random)
    targets[torch.rand(size, generator=random) < 0.2] = -1
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten(), ignore_index=-1, reduction="sum")
    loss.backward()
    own = dict(model.named_parameters())
    entries = {"tokens": tokens, "targets": targets, "loss": loss, "logits": logits}
    for name in names:
        gradient = own[in_memory(name, kind)[0]].grad
        entries["g:" + name] = view(gradient, name, kind)
    config = json.loads(text)
    for member in ("transformers_version", "_name_or_path"):
        config.pop(member, None)
    text = json.dumps(config, sort_keys=True).encode()
    data = b"BRAIDFX2" + struct.pack("<4I", len(text), *size, len(entries)) + text
    for key, value in entries.items():
        flat = value.detach().float().flatten()
        data += struct.pack("<96sQ", key.encode(), flat.numel()) + struct.pack(f"<{flat.numel()}f", *flat.tolist())
    return data


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (kind, members, size)) in enumerate(CASES.items(), start=1):
        data = make_fixture(kind, members, size, seed)
        (folder / f"row-{name}.bin").write_bytes(data)
        print(f"{name}: {len(data)} bytes")


main()
