#!/usr/bin/env python3
"""Prefix caches of spans: a prompt that was read before is not read again, and its text is the same; also when peers
with the prefix are killed, or have none."""
from servinglib import *

PROMPT = "the river bends round every stone that lies in its way, " * 3  # 168 tokens: two whole pages
PAGES = 128


def cached(server):
    with server.open("/metrics") as answer:
        text = answer.read().decode()
    return int(float(re.search(r"^braid_prompt_cached_tokens_total\S* (\S+)", text, re.M).group(1)))


def text_is_same(server, name, prompt, seed, expected_cached, at=None):
    before = cached(server)
    expected, text = decoded(generate(prompt, seed)), server.stream(prompt, seed, at)
    check(name, text == expected, f"{text} is not {expected}")
    check(f"{name}: tokens from the prefix cache", cached(server) - before == expected_cached, cached(server) - before)


def main():
    prepare(context=384)
    server = Server("--peers", "3")
    server.wait_peers({1, 2, 3})
    text_is_same(server, "a first text", PROMPT + "one", 1, 0)
    text_is_same(server, "a second text", PROMPT + "two", 2, PAGES)
    text_is_same(server, "a killed peer with the prefix", PROMPT + "three", 3, PAGES, {5: lambda: server.kill(2)})
    server.wait_peers({2})
    text_is_same(server, "a peer without it", PROMPT + "four", 4, 0)
    text_is_same(server, "all have it again", PROMPT + "five", 5, PAGES)
    text_is_same(server, "two killed peers", PROMPT + "six", 6, PAGES, {4: lambda: server.kill(1, 3)})
    check("an orderly end", server.api.end() == 0)
    finish()


main()
