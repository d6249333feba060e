#!/usr/bin/env python3
"""An adapter of a model: its bits are equal for one process, for one that resumes, and for a swarm of four relays of which some are
killed. The checkpoint is a directory of peft that `braid merge` takes. Wrong models, adapters and checkpoints are refused."""

import json
import os
import random
import shutil
import subprocess

from swarmlib import PROGRAM, Braid, expect, seed_of_test, solo, workplace, write_text

POINTS = ("forward", "backward", "committed", "weight", "reduction", "final")


def write(path, *lines):
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    return path


def write_run(directory, name, seed, *lines, iterations=24):
    return write(
        os.path.join(directory, name), f"seed: {seed}", "stages: [0, 2, 2]", f"data: {{text: {directory}/text.txt, tokenizer: bytes, cache: {directory}/cache}}",
        f"train: {{iterations: {iterations}, microbatches: 8, sequences: 2, tokens: 32, learning_rate: 0.01}}", *lines,
    )


def manifest(directory, key="checkpoint"):
    with open(os.path.join(directory, key, "latest", "braid-manifest.json"), encoding="ascii") as file:
        return json.load(file)


def expect_refused(said, *arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.strip().splitlines()
    expect(done.returncode == 2 and len(lines) == 1 and said in lines[0], f"{arguments}: {done.returncode} {lines}, and not '{said}'")


def safetensors(path):
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


def check_files(directory):
    last = os.path.join(directory, "checkpoint", "latest")
    with open(os.path.join(last, "adapter_config.json"), encoding="ascii") as file:
        config = json.load(file)
    expect(config["peft_type"] == "LORA" and config["r"] == 4 and config["lora_alpha"] == 8, f"adapter_config.json: {config}")
    expect(config["target_modules"] == ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"], f"{config['target_modules']}")
    names = [name for name in safetensors(os.path.join(last, "adapter_model.safetensors")) if name != "__metadata__"]
    expect(len(names) == 4 * 3 * 2, f"{len(names)} tensors")
    expect("base_model.model.model.layers.3.mlp.down_proj.lora_B.weight" in names, f"{names}")
    subprocess.run([PROGRAM, "merge", f"{directory}/base/latest", last, f"{directory}/merged"], check=True, timeout=60, capture_output=True)
    expect(os.path.exists(f"{directory}/merged/model.safetensors"), "no merged model")


def check_members(directory, run, one):
    """`braid tune --join` is a member of the run; the run reports the parameters of the adapter's file."""
    base = f"{directory}/base/latest"
    leader = Braid("node", "--lead", "--run", run, "--from", base, "--listen", "127.0.0.1:0", "--wait-relays", "2", "--anew")
    ticket = leader.wait_for("ready")["ticket"]
    expect_refused("leave out --rank", "tune", base, "--join", ticket, "--rank", "4")
    expect_refused("--join: ", "tune", base, "--join", "braid1.x")
    peers = [Braid("tune", base, "--join", ticket, "--threads", "1") for _ in range(2)]
    expect(leader.weights() == one, "a run whose relays are of `tune --join`")
    file = safetensors(os.path.join(directory, "checkpoint", "latest", "adapter_model.safetensors"))
    parameters = sum(value["shape"][0] * value["shape"][1] for name, value in file.items() if name != "__metadata__")
    told = {event["parameters"] for event in leader.events if event.get("parameters")}
    expect(told == {parameters}, f"{told} parameters, and not {parameters}")
    for peer in peers:
        peer.finish()


def check_refusals(directory, run, seed):
    other = write(f"{directory}/other.yaml", "seed: 99", "model: {dim: 32, layers: 4, heads: 2, context: 32}", f"data: {{text: {directory}/text.txt}}",
                  "train: {iterations: 1}", f"checkpoint: {{dir: {directory}/other}}")
    solo(other, 1)
    base, checkpoint = f"{directory}/base/latest", f"{directory}/checkpoint/latest"
    expect_refused("is an adapter and no model", "train", "--solo", run, "--from", checkpoint)
    expect_refused("leave out --state-dir", "train", "--solo", run, "--from", base, "--state-dir", f"{directory}/state", "--max-memory", "500M")
    expect_refused("of another model; give the model that it was trained", "train", "--solo", run, "--from", f"{directory}/other/latest", "--resume", checkpoint)
    expect_refused("is one of a whole model", "train", "--solo", run, "--from", base, "--resume", base)
    whole = write_run(directory, "whole.yaml", seed)
    expect_refused("is one of an adapter", "train", "--solo", whole, "--from", base, "--resume", checkpoint)
    rank = write_run(directory, "rank.yaml", seed, "adapter: {rank: 5}")
    expect_refused("an adapter of rank 4", "train", "--solo", rank, "--from", base, "--resume", checkpoint)

    # a relay needs the run's model, and only that
    leader = Braid("node", "--lead", "--run", run, "--from", base, "--listen", "127.0.0.1:0", "--wait-relays", "2", "--anew")
    ticket = leader.wait_for("ready")["ticket"]
    join = ("node", "--join", ticket, "--listen", "127.0.0.1:0")
    expect_refused("name that model with --from MODEL", *join)
    expect_refused("has other weights than the one", *join, "--from", f"{directory}/other/latest")
    small = write(f"{directory}/small.yaml", "model: {dim: 16, layers: 4, heads: 2, context: 32}", f"data: {{text: {directory}/text.txt}}",
                  "train: {iterations: 1}", f"checkpoint: {{dir: {directory}/small}}")
    solo(small, 1)
    expect_refused("its dim is 16, the run's is 32", *join, "--from", f"{directory}/small/latest")
    leader.process.kill()
    leader.finish()


def main():
    seed = seed_of_test()
    with workplace() as directory:
        os.environ["XDG_CACHE_HOME"] = f"{directory}/user"
        write_text(f"{directory}/text.txt", 5)
        base = write(f"{directory}/base.yaml", f"seed: {seed}", "model: {dim: 32, layers: 4, heads: 2, context: 32}", f"data: {{text: {directory}/text.txt}}",
                     "train: {iterations: 4}", f"checkpoint: {{dir: {directory}/base}}")
        solo(base, 4)
        model = ("--from", f"{directory}/base/latest")
        adapter = "adapter: {rank: 4, targets: [q_proj, v_proj, down_proj]}"
        checkpoint = f"checkpoint: {{dir: {directory}/checkpoint, every: 8}}"
        run = write_run(directory, "run.yaml", seed, adapter, checkpoint)

        one = solo(run, 24, *model, "--threads", "1")
        expect(solo(run, 24, *model, "--threads", "2") == one, "two threads")
        shutil.copytree(f"{directory}/checkpoint/step-000016", f"{directory}/kept")
        check_files(directory)
        expect(solo(run, 24, *model, "--resume", f"{directory}/kept") == one, "a process that resumes")

        flags = ["--late", "1@iteration:3", "--late", "1@iteration:9", "--late", "1@iteration:15"]
        order = random.Random(seed).sample(POINTS, 3)
        for i, point in enumerate(order):
            flags += ["--kill", f"any@iteration:{4 + 6 * i}/{point}"]
        swarm = Braid("up", run, "--relays", "4", "--anew", *model, *flags)
        weights = swarm.weights()
        print(f"killed {len(swarm.of('killed'))} at {order}, repairs {swarm.events[-1]['repairs']}")
        expect(weights == one, f"a swarm of four relays with kills: {weights} is not {one}")
        expect(manifest(directory)["weights"] == one, "the checkpoint of the swarm has other weights")
        expect(swarm.of("killed"), "no relay was killed")
        expect(Braid("up", run, "--relays", "4", "--anew", *model, "--resume", f"{directory}/kept").weights() == one, "a swarm that resumes")
        check_members(directory, run, one)
        check_refusals(directory, run, seed)


main()
