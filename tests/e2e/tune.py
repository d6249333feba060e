#!/usr/bin/env python3
"""braid tune: the same adapter after kill -9, after SIGINT, with other threads and less memory; the loss falls; the adapter
works in generate and chat; and one clear sentence for each bad input."""
import fcntl
import filecmp
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys

BRAID = os.environ["BRAID"]
RUN = """name: small
seed: 7
stages: [0, 2]
model: {arch: llama, dim: 32, layers: 2, heads: 2, context: 64}
data: {text: words.txt, holdout: 0.1}
train: {iterations: 150, microbatches: 1, sequences: 8, learning_rate: 0.01}
"""
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
# writes earlier answers without their text, as templates of models that think do
FORGETFUL = ("{% for m in messages %}{{ m.role[0] }}:{% if loop.last or m.role != 'assistant' %}{{ m.content }}{% endif %};"
             "{% endfor %}{% if add_generation_prompt %}a:{% endif %}")
WORDS = ["river", "stone", "bends", "way", "lies", "round", "every", "that"]
failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAILED:", text)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def rows(path, *values):
    write(path, "".join(json.dumps(value) + "\n" for value in values))


def chat(*turns):
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def braid(*arguments, code=0, text=""):
    done = subprocess.run([BRAID, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != code or text not in done.stdout + done.stderr:
        fail(f"{arguments}: expected status {code} and '{text}', got {done.returncode} and {done.stdout}{done.stderr}")
    if code and len(done.stderr.strip().splitlines()) != 1:
        fail(f"{arguments}: one line is expected, not {done.stderr}")
    return done.stdout


def command(out, *more):
    return ["tune", "model", "--data", "chats.jsonl", "--out", out, "--iterations", "48", "--batch", "4", "--rank", "8",
            "--sequence", "40", "--learning-rate", "0.02", "--validate-every", "12", "--save-every", "2", "--json", *more]


def events(text, kind):
    return [event for event in map(json.loads, text.splitlines()) if event["event"] == kind]


def interrupted(out, number, after):
    """Starts a run, and sends a signal after some iterations. Returns the exit status."""
    with subprocess.Popen([BRAID, *command(out)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "iteration" and event["iteration"] == after:
                process.send_signal(number)
        return process.wait()


def same(out):
    if not os.path.exists(f"{out}/adapter_model.safetensors"):
        fail(f"{out} has no adapter")
        return
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        if not filecmp.cmp(f"whole/{name}", f"{out}/{name}", shallow=False):
            fail(f"{out}/{name} differs from that of one run without interruption")


def tensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    return json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])


for old in os.listdir("."):
    shutil.rmtree(old, ignore_errors=True)
write("words.txt", "".join(" ".join(WORDS[(i * 7 + j * 3) % 8] for j in range(8)) + "\n" for i in range(400)))
write("run.yaml", RUN)
braid("train", "--solo", "run.yaml", "--save", "saved", "--threads", "1")
braid("convert", "saved", "model", "--to", "f32")
write("model/chat_template.jinja", TEMPLATE)
rows("chats.jsonl", *(chat(("user", word), ("assistant", "so it is"), ("user", "x"), ("assistant", "yes")) for word in WORDS * 4))

told = braid(*command("whole", "--threads", "1"))
losses = [event["loss"] for event in events(told, "eval")]
if len(losses) != 5 or not losses[-1] < losses[0] - 1:
    fail(f"the held-out loss is {losses}")
if sorted(os.listdir("whole")) != ["adapter_config.json", "adapter_model.safetensors", "tune-state.safetensors"]:
    fail(f"whole has {os.listdir('whole')}")
names = tensors("whole/adapter_model.safetensors")
if len(names) - ("__metadata__" in names) != 2 * 2 * 7:
    fail(f"the adapter has {sorted(names)}")
braid(*command("two", "--threads", "2", "--max-memory", "1800K"))
same("two")
braid(*command("little", "--max-memory", "1M"), code=1, text="raise --max-memory")
if interrupted("killed", signal.SIGKILL, 7) != -signal.SIGKILL:
    fail("kill -9 was survived")
if interrupted("stopped", signal.SIGINT, 9) != 0:
    fail("SIGINT is no failure")
for out in ("killed", "stopped"):
    first = events(braid(*command(out, "--resume", "--threads", "2")), "started")[0]["iteration"]
    if not 0 < first < 48:
        fail(f"{out}: continues at iteration {first}")
    same(out)
braid(*command("stopped", "--resume"))
same("stopped")
if events(braid(*command("early", "--patience", "1", "--learning-rate", "0.9", "--validate-every", "1")), "end")[0]["iteration"] == 48:
    fail("a loss that rises does not end the run")

# the adapter is used, and goes on
prompt = ["--prompt", "u:stone;a:", "--temperature", "0", "--tokens", "5"]
answer = braid("generate", "model", *prompt, "--adapter", "whole")
if not answer.startswith("u:stone;a:so it"):
    fail(f"the adapted model answers {answer}")
if braid("generate", "model", *prompt) == answer:
    fail("the adapter changes nothing")
if braid("chat", "model", "--once", "stone", "--adapter", "whole", "--temperature", "0", "--tokens", "5").strip() != "so it":
    fail("chat has no adapter")
more = ["tune", "model", "--data", "chats.jsonl", "--out", "more", "--from-adapter", "whole", "--iterations", "2", "--sequence",
        "40", "--batch", "4", "--json"]
found = events(braid(*more), "eval")[0]["loss"]
if abs(found - min(losses)) > 1e-9:
    fail(f"the continued adapter begins with a held-out loss of {found}, not {min(losses)}")
rows("pairs.jsonl", {"prompt": "ab", "completion": "cd"}, {"text": "efgh"}, {"prompt": "a" * 90, "completion": "b"}, {"text": "z" * 60})
told = braid("tune", "model", "--data", "pairs.jsonl", "--out", "pairs", "--iterations", "2", "--sequence", "40", "--hold-out", "0",
             "--targets", "attention", "--rslora")
if "3 examples of" not in told or "2 were longer than --sequence allows and lost" not in told or "1 were left out" not in told:
    fail(f"truncation is not told: {told}")

# mistakes
def refused(text, *changes, data=None, out="refused"):
    if data is not None:
        rows("bad.jsonl", *data)
    arguments = ["tune", "model", "--out", out, "--sequence", "40", "--data", "chats.jsonl" if data is None else "bad.jsonl"]
    braid(*arguments, *changes, code=2, text=text)


refused("no turn of the assistant", data=[chat(("user", "a"))])
refused("bad.jsonl:2: the row has neither messages", data=[{"text": "ab"}, {"question": "a"}])
refused("prompt and completion must both be texts", data=[{"prompt": ["a"], "completion": "b"}])
refused("message 1 has no role", data=[{"messages": [{"content": "a"}]}])
refused("messages must be an array", data=[{"messages": "a"}])
refused("no example with a token to learn", data=[{"prompt": "a" * 90, "completion": "b"}])
write("forgetful.jinja", FORGETFUL)
refused("cannot mark the assistant's turns", "--template", "forgetful.jinja")
refused("the model has no module 'lm_head' to adapt; it has q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
        "--targets", "q_proj,lm_head")
refused("goes on with the run", out="whole")
refused("is of a run with another seed", "--seed", "2", *command("")[6:], "--resume", out="whole")
refused("the adapter of --from-adapter has its own rank", "--from-adapter", "whole", "--rank", "4")
braid("tune", "model", "--out", "x", code=2, text="give the examples with --data")
write("run.yaml", RUN.replace("dim: 32", "dim: 64"))
braid("train", "--solo", "run.yaml", "--save", "wide-saved", "--threads", "1")
braid("convert", "wide-saved", "wide", "--to", "f32")
braid("generate", "wide", "--adapter", "whole", "--prompt", "a", code=1, text="the adapter is of another model")
shutil.copytree("whole", "shaped")
config = open("shaped/adapter_config.json", encoding="utf-8").read()
write("shaped/adapter_config.json", re.sub(r'"r": ?8', '"r": 4', config))
refused("as this model and r need; the adapter is of another model", "--from-adapter", "shaped")
os.makedirs("broken")
write("broken/tune-state.safetensors", "abc")
refused("no complete safetensors file", "--resume", out="broken")
refused("or from its adapter with --from-adapter broken", "--resume", out="broken")
os.makedirs("taken")
with open("taken/braid.lock", "w", encoding="ascii") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    refused("another process tunes into 'taken'; end it first, or give another --out", out="taken")
braid("tune", "model", "--data", "chats.jsonl", "--sequence", "40", "--out", "chats.jsonl", code=1, text="cannot write into 'chats.jsonl'")
if os.path.exists("whole/braid.lock"):
    fail("a lock was left in the adapter's directory")
braid("inspect", "whole", code=1, text="whole is an adapter and no model")
os.remove("model/chat_template.jinja")
refused("the model has no chat template")
sys.exit(failures > 0)
