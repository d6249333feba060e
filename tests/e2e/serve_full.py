#!/usr/bin/env python3
"""Full caches everywhere: more texts than the peers have room for all have their own text, one after the other, and all room
is free afterwards. A draft model that leaves no memory is refused."""
import threading

from servinglib import *

TEXTS = 8
ROUNDS = 20
MEMORY = "1700000"  # two layers, computing, and two texts


def full(server, expected):
    """All texts at once; the least room that was seen meanwhile."""
    def ask(seed):
        text = server.stream("the ", seed)
        check(f"text {seed} of many", text == expected[seed], f"{text} is not {expected[seed]}")

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in expected]
    least = state(server)["free_tokens"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        least = min(least, state(server)["free_tokens"])
        time.sleep(0.01)
    return least


def test_full_caches():
    expected = {seed: decoded(generate("the ", seed)) for seed in range(TEXTS)}
    server = Server("--peers", "0", "--listen", "127.0.0.1:0")
    join = "node", "--join", server.ticket, "--model", "saved.gguf", "--listen", "127.0.0.1:0", "--max-memory", MEMORY
    nodes = [Process(*join, "--layers", layers) for layers in ("0:2", "2:3", "0:2", "2:3")]
    for node in nodes:
        node.wait("serving layers")
    wait_ready(server)
    room = state(server)["cache_tokens"]
    check("less room than the texts need", 128 <= room < TEXTS * 64, room)
    least = room
    for _ in range(ROUNDS):  # a fast machine may write the texts between two looks
        if least == room:
            least = full(server, expected)
    check("texts took room", least < room, (least, room))
    wait_free(server)
    nodes[0].process.kill()
    full(server, expected)
    wait_free(server)
    for node in nodes[1:]:
        node.end()
    check("the end of the API node", server.api.end() == 0)


def test_draft_memory():
    done = subprocess.run([BRAID, "serve", "saved.gguf", "--port", "0", "--peers", "1", "--draft", "saved.gguf",
                           "--max-memory", "1M"], capture_output=True, text=True, timeout=PATIENCE)
    check("a draft model without memory", done.returncode == 1 and "draft model" in done.stderr, done.stderr)
    done = subprocess.run([BRAID, "serve", "saved.gguf", "--port", "0", "--peers", "1", "--max-memory", "20K"],
                          capture_output=True, text=True, timeout=PATIENCE)
    check("no memory for the ends", done.returncode == 1 and "embedding, head and draft model need" in done.stderr,
          done.stderr)


def main():
    prepare()
    test_draft_memory()
    test_full_caches()
    finish()


main()
