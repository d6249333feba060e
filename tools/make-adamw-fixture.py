#!/usr/bin/env python3
"""Prints tests/unit/train_adamw_pytorch.h: weights and moments after a few steps of PyTorch's AdamW in fp32, with a
gradient norm clipped by torch.nn.utils.clip_grad_norm_. Needs PyTorch (any recent version; the CPU build is enough).

    python3 tools/make-adamw-fixture.py > tests/unit/train_adamw_pytorch.h
"""
import textwrap

import torch

COUNT, STEPS = 24, 5
RATES = [0.003, 0.01, 0.02, 0.004, 0.0005]
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0


def row(name, values):
    text = ", ".join(f"{v:.9g}f" if "." in f"{v:.9g}" or "e" in f"{v:.9g}" else f"{v:.9g}.0f" for v in values)
    return textwrap.fill(f"static const float {name}[] = {{{text}}};", 120, subsequent_indent="    ")


def main():
    torch.manual_seed(5)
    p = torch.nn.Parameter(torch.randn(COUNT) * 0.3)
    print("// Made by tools/make-adamw-fixture.py; PyTorch", torch.__version__.split("+")[0])
    print(f"enum {{ ADAMW_COUNT = {COUNT}, ADAMW_STEPS = {STEPS} }};")
    print(row("adamw_rates", RATES))
    print(row("adamw_start", p.detach().tolist()))
    optimizer = torch.optim.AdamW([p], lr=RATES[0], betas=BETAS, eps=EPS, weight_decay=DECAY, foreach=False)
    gradients = []
    for step, rate in enumerate(RATES):
        # the third is tiny, the others are clipped
        gradient = torch.randn(COUNT) * (1e-6 if step == 2 else 2.0)
        gradients += gradient.tolist()
        p.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([p], CLIP)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    state = optimizer.state[p]
    print(row("adamw_gradients", gradients))
    print(row("adamw_weights", p.detach().tolist()))
    print(row("adamw_moment1", state["exp_avg"].tolist()))
    print(row("adamw_moment2", state["exp_avg_sq"].tolist()))


if __name__ == "__main__":
    main()
