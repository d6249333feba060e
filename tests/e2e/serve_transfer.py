#!/usr/bin/env python3
"""braid node --join without a model file: layers come from other peers, and texts are the same. The layers stay in
--state-dir for the next start; a wrong file there is replaced; too little memory is refused."""
from servinglib import *

COST = 2_000_000  # more than one layer with its memory for computing


def join(server, *flags):
    return Process("node", "--join", server.ticket, "--listen", "127.0.0.1:0", *flags)


def serving(node):
    found = node.wait(r"serving layers (\d+) to (\d+)")
    return int(found.group(1)), int(found.group(2))


def wait_ready(server):
    limit = time.monotonic() + PATIENCE
    while not state(server)["ready"] and time.monotonic() < limit:
        time.sleep(0.05)


def test_chain_of_transfers():
    """The second joiner can get the layers from the first one; then the text needs both."""
    server = Server("--peers", "0", "--listen", "127.0.0.1:0")
    first = join(server, "--layers", "0:2")
    check("the layers of the first", serving(first) == (0, 1))
    second = join(server, "--layers", "1:3", "--state-dir", "kept")
    check("the layers of the second", serving(second) == (1, 2))
    wait_ready(server)
    same(server, "layers by transfer", 1)
    check("layers are kept", len(os.listdir("kept")) >= 2, os.listdir("kept"))
    check("the end of the second", second.end() == 0)
    again = join(server, "--layers", "1:3", "--state-dir", "kept")
    again.wait("the layers were kept in kept")
    serving(again)
    same(server, "kept layers", 2)
    again.end()
    for name in os.listdir("kept"):
        with open(f"kept/{name}", "r+b") as file:
            file.seek(-100, os.SEEK_END)
            file.write(b"\x55" * 8)
    third = join(server, "--layers", "1:3", "--state-dir", "kept")
    third.wait("received .* of the model from other peers")
    serving(third)
    same(server, "replaced layers", 3)
    for node in first, third:
        check("the end of a joiner", node.end() == 0)
    check("the end of the API node", server.api.end() == 0)


def test_memory():
    server = Server("--peers", "0", "--listen", "127.0.0.1:0")
    done = subprocess.run([BRAID, "node", "--join", server.ticket, "--listen", "127.0.0.1:0", "--max-memory", "10K"],
                          capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    for flags in ("--data", "--run", "words.txt"), ("--whole",), ("--no-whole",), ("--stage", "1"):
        refused = subprocess.run([BRAID, "node", "--join", server.ticket, *flags], capture_output=True, text=True, timeout=PATIENCE)
        check("flags of a training run", refused.returncode == 2 and "are for a training run" in refused.stderr, refused.stderr)
    refused = subprocess.run([BRAID, "node", "--join", server.ticket, "--state-dir", "words.txt"], capture_output=True, text=True,
                             timeout=PATIENCE)
    check("a state directory that is a file", refused.returncode == 1 and "--state-dir: cannot write into" in refused.stderr, refused.stderr)
    check("too little memory", done.returncode == 1 and "one layer of this model needs" in done.stderr, done.stderr)
    chosen = join(server, "--max-memory", str(COST))
    begin, end = serving(chosen)
    check("as many layers as fit", begin == 0, (begin, end))
    chosen.end()
    check("the end of the API node", server.api.end() == 0)


def main():
    prepare()
    os.mkdir("kept")
    test_chain_of_transfers()
    test_memory()
    finish()


main()
