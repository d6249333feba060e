#!/usr/bin/env python3
"""braid serve --peers --adapter: requests choose an adapter by name, and have the text of braid generate --adapter; also
when a peer dies, and beside requests without one. A peer without the adapter takes no such request."""
import threading

from servinglib import *

ADAPTED = """seed: %d
adapter: {rank: %d, alpha: 64}
data: {text: words.txt, tokenizer: bytes, cache: cache}
train: {iterations: 6, tokens: 64, learning_rate: 0.1}
checkpoint: {dir: %s}
"""
PROMPT = "the river bends round every stone that lies in its way, and on "  # with the seed's letter a whole page


def train():
    for number, name in (1, "first"), (2, "second"):
        with open(f"{name}.yaml", "w") as file:
            file.write(ADAPTED % (number, number + 2, name))
        subprocess.run([BRAID, "train", "--solo", f"{name}.yaml", "--from", "saved", "--threads", "1"], check=True,
                       stdout=subprocess.DEVNULL)


def ask(server, name, model, seed, at=None):
    prompt = PROMPT + str(seed % 10)
    flags = ["--adapter", f"{model}/latest"] if model != "base" else []
    expected = decoded(generate(prompt, seed, *flags))
    text = server.stream(prompt, seed, at, model=model)
    check(f"{name}, {model}", text == expected, f"{text} is not {expected}")
    return text


def together(server):
    threads = [threading.Thread(target=ask, args=(server, "together", model, seed))
               for seed, model in enumerate(("base", "first", "second", "first"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_children():
    server = Server("--peers", "3", "--name", "base", "--adapter", "first=first/latest", "--adapter", "second=second/latest")
    server.wait_peers({1, 2, 3})
    texts = [ask(server, "alone", model, 5) for model in ("base", "first", "second")]
    check("adapters change the text", len(set(texts)) == 3, texts)
    together(server)
    ask(server, "a killed peer", "first", 6, {5: lambda: server.kill(2)})
    server.wait_peers({2})
    ask(server, "after it", "second", 7)
    check("an unknown name", status_of(lambda: server.stream("x", 1, model="third")) == 404)
    check("an orderly end", server.api.end() == 0)


def test_joiners():
    """Only the second peer has the adapter."""
    server = Server("--peers", "0", "--listen", "127.0.0.1:0", "--name", "base", "--adapter", "first=first/latest")
    join = "node", "--join", server.ticket, "--model", "saved.gguf", "--listen", "127.0.0.1:0"
    plain, adapted = Process(*join), Process(*join, "--adapter", "any=first/latest")
    for node in plain, adapted:
        node.wait("serving layers")
    limit = time.monotonic() + PATIENCE
    while len(state(server)["peers"]) < 3 and time.monotonic() < limit:
        time.sleep(0.1)
    for seed in range(2):
        ask(server, "two joiners", "first", seed)
        ask(server, "two joiners", "base", seed)
    check("the ends", [adapted.end(), plain.end(), server.api.end()] == [0, 0, 0])


def main():
    prepare(context=256)
    train()
    test_children()
    test_joiners()
    finish()


main()
