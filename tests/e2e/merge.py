#!/usr/bin/env python3
"""braid merge: W + s B A for LoRA and rank-stabilised LoRA, both spellings of keys, and one clear sentence for each bad
adapter."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys

BRAID = os.environ["BRAID"]
WORDS, DIM, FFN, RANK, ALPHA = 40, 32, 48, 4, 6
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": DIM, "intermediate_size": FFN,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": WORDS, "tie_word_embeddings": True,
          "dtype": "float32", "hidden_act": "silu"}
LAYER = {"input_layernorm": [DIM], "post_attention_layernorm": [DIM], "self_attn.q_proj": [DIM, DIM],
         "self_attn.k_proj": [16, DIM], "self_attn.v_proj": [16, DIM], "self_attn.o_proj": [DIM, DIM],
         "mlp.gate_proj": [FFN, DIM], "mlp.up_proj": [FFN, DIM], "mlp.down_proj": [DIM, FFN]}
Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text)


def run(*arguments, code=0, text=""):
    done = subprocess.run([BRAID, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != code or text not in done.stderr:
        fail(f"{arguments}: expected status {code} and '{text}', got {done.returncode} and {done.stderr}")
    if len(done.stderr.strip().splitlines()) != 1:
        fail(f"{arguments}: one line is expected, not {done.stderr}")


def values(seed, count):
    return [((seed * 7919 + k * 104729) % 2003 - 1001) / 4096 for k in range(count)]


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    out = {}
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    for name, t in header.items():
        first, last = t["data_offsets"]
        out[name] = struct.unpack(f"<{(last - first) // 4}f", raw[start + first:start + last])
    return out


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def model():
    shapes = {"model.embed_tokens.weight": [WORDS, DIM], "model.norm.weight": [DIM]}
    shapes.update({f"model.layers.0.{name}.weight": shape for name, shape in LAYER.items()})
    return {name: (shape, values(i, math.prod(shape))) for i, (name, shape) in enumerate(shapes.items())}


def pair(base, out, into, spelling="", rank=RANK):
    stem = f"base_model.model.{base}.lora_"
    return {f"{stem}A{spelling}.weight": ([rank, into], values(90, rank * into)),
            f"{stem}B{spelling}.weight": ([out, rank], values(91, out * rank))}


def write_adapter(path, tensors, **changes):
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", "target_modules": ["q_proj"]}
    write_json(f"{path}/adapter_config.json", {**config, **changes})
    write_tensors(f"{path}/adapter_model.safetensors", tensors)


def check_merged(path, scale):
    found = read_tensors(f"{path}/model.safetensors")
    for name, (shape, base) in model().items():
        a = b = None
        if name in (Q + ".weight", DOWN + ".weight"):
            a, b = values(90, RANK * shape[1]), values(91, shape[0] * RANK)
        for i, w in enumerate(base):
            if a:
                row, col = divmod(i, shape[1])
                w += scale * sum(b[row * RANK + k] * a[k * shape[1] + col] for k in range(RANK))
            if abs(found[name][i] - w) > 1e-6:
                fail(f"{path}: {name}[{i}] is {found[name][i]}, not {w}")
                return


for old in ("model", "merged", "merged-stable", "merged-gguf", "x"):
    shutil.rmtree(old, ignore_errors=True)
if os.path.exists("model.gguf"):
    os.remove("model.gguf")
os.mkdir("model")
write_json("model/config.json", CONFIG)
write_tensors("model/model.safetensors", model())
both = {**pair(Q, DIM, DIM), **pair(DOWN, DIM, FFN, ".default")}
write_adapter("lora", both)
write_adapter("stable", both, use_rslora=True)
run("merge", "model", "lora", "merged", text="2 matrices of model")
check_merged("merged", ALPHA / RANK)
run("merge", "model", "stable", "merged-stable")
check_merged("merged-stable", ALPHA / math.sqrt(RANK))
run("convert", "model", "model.gguf")
run("merge", "model.gguf", "lora", "merged-gguf")
check_merged("merged-gguf", ALPHA / RANK)

run("merge", "model", "lora", "merged", code=2, text="'merged' exists")
run("merge", "model", "model", "x", code=2, text="has no adapter_config.json")
half = dict(list(pair(Q, DIM, DIM).items())[:1])
bad = {
    "needs 4 x 32": ("is not 4 x 32, as this model and r need", pair(Q, DIM, DIM + 1), {}),
    "rank": ("is not 5 x 32", both, {"r": 5}),
    "no rank": ("r must be from 1 to 4096", both, {"r": 0}),
    "alpha": ("lora_alpha must be a number", both, {"lora_alpha": "x"}),
    "half": ("has no other half", half, {}),
    "layer": ("belongs to no matrix of the model", {**both, **pair("model.layers.7.self_attn.q_proj", DIM, DIM)}, {}),
    "twice": ("two spellings", {**both, **pair(Q, DIM, DIM, ".default")}, {}),
    "dora": ("use_dora is set", both, {"use_dora": True}),
    "saved": ("modules_to_save is set", both, {"modules_to_save": ["lm_head"]}),
    "biases": ("bias is all", both, {"bias": "all"}),
    "kind": ("peft_type is IA3", both, {"peft_type": "IA3"}),
    "empty": ("it adapts no matrix", {}, {}),
}
for name, (text, tensors, changes) in bad.items():
    write_adapter("bad", tensors, **changes)
    run("merge", "model", "bad", "x", code=2, text=text)
    if os.path.exists("x"):
        fail(f"{name}: merged")
with open("bad/adapter_model.safetensors", "wb") as f:
    f.write(b"abc")
run("merge", "model", "bad", "x", code=2, text="no complete safetensors file")
sys.exit(failures > 0)
