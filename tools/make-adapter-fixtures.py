#!/usr/bin/env python3
"""Adapters of peft 0.21 on tiny models of transformers 5.23, for tests/golden/model_adapter.c.

    tools/make-adapter-fixtures.py tests/golden/fixtures

Writes adapter-NAME.bin: the head of fixtures/*.bin with rank, alpha and rsLoRA appended, then
entries (name[96], count u64, floats): p:TENSOR the base, a:TENSOR and b:TENSOR the adapter,
ga:TENSOR and gb:TENSOR gradients of the summed token losses, logits, loss, read and targets."""
import struct
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

SEQUENCES, TOKENS = 2, 7
torch.cuda.is_current_stream_capturing = lambda: False  # crashes in a CUDA build without a GPU


def llama():
    c = LlamaConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=24, vocab_size=37, max_position_embeddings=16, rms_norm_eps=1e-5,
                    tie_word_embeddings=True)
    return 0, c, LlamaForCausalLM(c), (16, 2, 4, 2, 24, 37, 16, 1), 10000.0, 1e-5


def gpt():
    c = GPT2Config(n_embd=16, n_layer=2, n_head=4, vocab_size=37, n_positions=16, attn_pdrop=0, embd_pdrop=0,
                   resid_pdrop=0, bos_token_id=0, eos_token_id=0)
    return 1, c, GPT2LMHeadModel(c), (16, 2, 4, 4, 64, 37, 16, 1), 10000.0, 1e-5


CASES = {
    "lora": (llama, dict(r=4, lora_alpha=10, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                                             "up_proj", "down_proj"])),
    "rslora": (llama, dict(r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "v_proj"])),
    "gpt": (gpt, dict(r=4, lora_alpha=8, target_modules=["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"])),
}


def entry(name, values):
    flat = values.detach().double().flatten().float().numpy()
    return name.encode().ljust(96, b"\0") + struct.pack("<Q", flat.size) + flat.astype("<f4").tobytes()


def make(name, directory):
    torch.manual_seed(5)
    build, options = CASES[name]
    arch, _, model, shape, theta, eps = build()
    for p in model.parameters():
        p.data = p.data.float() + 0.05 * torch.randn_like(p)
    entries = [entry("p:" + n, p) for n, p in model.named_parameters()]
    peft = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options)).double()
    for n, p in peft.named_parameters():
        if "lora_B" in n:
            p.data = (0.3 * torch.randn_like(p)).float().double()
    read = torch.randint(0, shape[5], (SEQUENCES, TOKENS))
    targets = torch.randint(0, shape[5], (SEQUENCES, TOKENS))
    targets[0, :3] = -100
    logits = peft(input_ids=read).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    loss.backward()
    for n, p in peft.named_parameters():
        if "lora_" not in n:
            continue
        base = n.removeprefix("base_model.model.").split(".lora_")[0] + ".weight"
        part = "a" if "lora_A" in n else "b"
        entries += [entry(f"{part}:{base}", p), entry(f"g{part}:{base}", p.grad)]
    entries += [entry("logits", logits), entry("loss", loss), entry("read", read), entry("targets", targets)]
    head = struct.pack("<8s12I2f", b"BRAIDAD1", arch, *shape, SEQUENCES, TOKENS, len(entries), theta, eps)
    head += struct.pack("<IfI", options["r"], options["lora_alpha"], options.get("use_rslora", False))
    with open(f"{directory}/adapter-{name}.bin", "wb") as f:
        f.write(head + b"".join(entries))


for case in CASES:
    make(case, sys.argv[1])
