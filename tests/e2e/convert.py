#!/usr/bin/env python3
"""braid convert and braid inspect: every form of a model, and one clear sentence for each bad file."""
import json
import os
import shutil
import struct
import subprocess
import sys

BRAID = os.environ["BRAID"]
FIXTURE = os.path.join(os.environ["SOURCE"], "tests", "golden", "fixtures", "tokenizers", "gpt2.json")
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text)


def run(*arguments, code=0, text=""):
    done = subprocess.run([BRAID, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = done.stderr.strip().splitlines()
    if done.returncode != code or text not in done.stdout + done.stderr:
        fail(f"{arguments}: expected status {code} and '{text}', got {done.returncode} and {done.stdout + done.stderr}")
    if code and len(lines) != 1:
        fail(f"{arguments}: one sentence is expected, not {lines}")
    return done.stdout


def tokenizer(tokens):
    """A byte-level BPE with the same ids as the pre-tokenizer gpt-2 of llama.cpp."""
    letters = [chr(c) for c in [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]]
    letters += [chr(0x100 + i) for i in range(256 - len(letters))]
    vocab = {t: i for i, t in enumerate(letters)}
    merges = [["t", "h"], ["th", "e"], ["Ġ", "the"], ["i", "n"], ["e", "r"]]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    end = {"id": len(vocab), "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    vocab["<|end|>"] = len(vocab)
    assert len(vocab) <= tokens
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}}


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 272, "tie_word_embeddings": True, "dtype": "float32",
          "hidden_act": "silu", "some_key_of_the_author": [1, 2.50, "x"]}


def tensors():
    out = {"model.embed_tokens.weight": [272, 64], "model.norm.weight": [64]}
    for i in range(2):
        for name, shape in {"input_layernorm": [64], "post_attention_layernorm": [64], "self_attn.q_proj": [64, 64],
                            "self_attn.k_proj": [32, 64], "self_attn.v_proj": [32, 64], "self_attn.o_proj": [64, 64],
                            "mlp.gate_proj": [96, 64], "mlp.up_proj": [96, 64], "mlp.down_proj": [64, 96]}.items():
            out[f"model.layers.{i}.{name}.weight"] = shape
    return out


def write_safetensors(path, shapes, dtype="F32"):
    header, at, data = {}, 0, b""
    for i, (name, shape) in enumerate(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *(((i * 7919 + k * 104729) % 2003 - 1001) / 4096 for k in range(count)))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(values)]}
        at += len(values)
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def write_model(path):
    os.mkdir(path)
    write_json(f"{path}/config.json", CONFIG)
    write_json(f"{path}/tokenizer.json", tokenizer(272))
    write_json(f"{path}/tokenizer_config.json", {"eos_token": "<|end|>", "chat_template": "{{ messages[0].content }}"})
    write_safetensors(f"{path}/model.safetensors", tensors())


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check_forms():
    run("convert", "model", "one.gguf", text="as F32")
    run("inspect", "one.gguf", text="tokenizer      272 tokens, first 261 '<|end|>', last 261")
    run("convert", "model", "q.gguf", "--to", "q8_0")
    run("convert", "model", "half", "--to", "bf16")
    run("convert", "model", "m8", "--to", "mixed8")
    run("convert", "one.gguf", "back")
    for name in ("one.gguf", "q.gguf", "half", "m8", "back", "model"):
        shown = json.loads(run("inspect", name, "--json", "--peers", "2"))
        if shown["parameters"] != 79168 or shown["cache_values"] != 2 * 16 * 2 * 2 or len(shown["peers"]) != 2:
            fail(f"{name}: {shown}")
        if sum(p["bytes"] for p in shown["peers"]) != shown["bytes"] or shown["chat_template_bytes"] != 25:
            fail(f"{name}: {shown}")
    config = json.loads(read("half/config.json"))
    if config["dtype"] != "bfloat16" or config["some_key_of_the_author"] != [1, 2.5, "x"] or b"2.5" not in read("half/config.json"):
        fail(f"config.json is {config}")
    run("convert", "back", "two.gguf")
    run("convert", "two.gguf", "again")
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
                 "chat_template.jinja"):
        if read(f"back/{name}") != read(f"again/{name}"):
            fail(f"{name} differs the second time")
    text = "The thing, it's in the other 12 corners\n"
    ids = {n: subprocess.run([BRAID, "tokenize", n, "--ids"], input=text, capture_output=True, text=True).stdout
           for n in ("model", "back", "again", "one.gguf")}
    if len(set(ids.values())) != 1 or not ids["model"].strip():
        fail(f"ids differ: {ids}")
    run("inspect", "model", "--peers", "3", code=2, text="the model has 2 blocks")
    run("convert", "model", "one.gguf", code=2, text="'one.gguf' exists; remove it or choose another name")
    run("convert", "model", "x", "--to", "q8_0", code=2, text="the output must end with .gguf")
    run("convert", "model", "x.gguf", "--to", "mixed8", code=2, text="mixed8 is a form of directories")
    run("convert", "model", "x.gguf", "--to", "q4_1", code=2, text="q8_0")
    if any(name.startswith("x") for name in os.listdir(".")) or any(".tmp-" in name for name in os.listdir(".")):
        fail(f"something is left: {os.listdir('.')}")


def bad_directory(name, change, text, code=1):
    shutil.copytree("model", name)
    change(name)
    run("inspect", name, code=code, text=text)
    run("convert", name, "never", code=code, text=text)
    if os.path.exists("never"):
        fail(f"{name}: converted")


def change_config(**keys):
    def change(path):
        write_json(f"{path}/config.json", {**CONFIG, **keys})
    return change


def change_weights(edit):
    def change(path):
        shapes = tensors()
        edit(shapes)
        write_safetensors(f"{path}/model.safetensors", shapes)
    return change


def cut(path):
    with open(f"{path}/model.safetensors", "r+b") as f:
        f.truncate(os.path.getsize(f.name) - 10)


def overlap(path):
    data = read(f"{path}/model.safetensors")
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    last = list(header)[-1]
    begin, end = header[last]["data_offsets"]
    header[last]["data_offsets"] = [begin - 4, end - 4]
    text = json.dumps(header).encode()
    with open(f"{path}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data[8 + length:])


def check_bad_directories():
    bad_directory("cut", cut, "truncated")
    bad_directory("overlap", overlap, "overlaps another")
    bad_directory("dtype", lambda p: write_safetensors(f"{p}/model.safetensors", tensors(), "I32"), "has the dtype I32")
    bad_directory("missing", change_weights(lambda s: s.pop("model.layers.1.mlp.up_proj.weight")),
                  "the tensor 'model.layers.1.mlp.up_proj.weight' is missing")
    bad_directory("extra", change_weights(lambda s: s.update({"model.layers.2.mlp.up_proj.weight": [96, 64]})),
                  "the tensor 'model.layers.2.mlp.up_proj.weight' is no part of the model")
    bad_directory("shape", change_weights(lambda s: s.update({"model.norm.weight": [65]})),
                  "the tensor 'model.norm.weight' has the shape [65], config.json says [64]")
    bad_directory("arch", change_config(model_type="mamba"), "'model_type' is mamba, which braid does not compute")
    bad_directory("untyped", change_config(model_type=7), "'model_type' is missing, so the architecture is not known")
    bad_directory("quantized", change_config(quantization_config={"quant_method": "awq"}), "'quantization_config' says awq")
    shutil.copytree("model", "ends")
    write_json("ends/generation_config.json", {"eos_token_id": ["x"]})
    run("inspect", "ends", code=1, text="ends/generation_config.json: 'eos_token_id' is neither a token's id nor a list of ids")
    shutil.copytree("model", "small")
    shapes = {n: ([200, 64] if "embed" in n else s) for n, s in tensors().items()}
    write_json("small/config.json", {**CONFIG, "vocab_size": 200})
    write_safetensors("small/model.safetensors", shapes)
    run("inspect", "small", code=1, text="the tokenizer has 262 tokens, the embedding 200 rows; they are not of one model")
    run("convert", "small", "never.gguf", code=1, text="the tokenizer has 262 tokens, the embedding 200 rows")
    shutil.copytree("model", "other")
    shutil.copy(FIXTURE, "other/tokenizer.json")
    run("convert", "other", "never.gguf", code=1, text="tokenizer")


def bad_gguf(name, data, text):
    with open(name, "wb") as f:
        f.write(data)
    run("inspect", name, code=1, text=text)


def check_bad_gguf():
    good = read("one.gguf")
    bad_gguf("cut.gguf", good[:-100], "ends outside the file; it is truncated or damaged, fetch it again")
    bad_gguf("half.gguf", good[:3000], "truncated or damaged")
    bad_gguf("big.gguf", good[:4] + b"\0\0\0\3" + good[8:], "a big-endian GGUF file")
    bad_gguf("v1.gguf", good[:4] + b"\1" + good[5:], "GGUF version 1, braid reads 2 and 3; convert the model again")
    bad_gguf("text.gguf", b"hello", "not a GGUF file")
    bad_gguf("empty.gguf", b"", "not a GGUF file")
    bad_gguf("arch.gguf", good.replace(b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
                                       b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0mamba"),
             "'general.architecture' is 'mamba', which braid does not compute")
    bad_gguf("named.gguf", good.replace(b"blk.1.ffn_up.weight", b"blk.2.ffn_up.weight"), "the tensor 'blk.1.ffn_up.weight' is missing")
    at = good.index(b"token_embd.weight") + len(b"token_embd.weight") + 4
    bad_gguf("rows.gguf", good[:at + 8] + struct.pack("<Q", 260) + good[at + 16:],
             "the tokenizer has 272 tokens, the embedding 260 rows")
    run("inspect", "nowhere.gguf", code=1, text="cannot open 'nowhere.gguf'")


work = os.path.abspath("work")
shutil.rmtree(work, ignore_errors=True)
os.mkdir(work)
os.chdir(work)
write_model("model")
check_forms()
check_bad_directories()
check_bad_gguf()
print(f"{failures} of them failed" if failures else "all as expected")
sys.exit(1 if failures else 0)
