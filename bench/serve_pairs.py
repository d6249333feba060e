#!/usr/bin/env python3
"""Pairs braid serve with llama-server on one machine: the same prompts, at once, over /v1/completions.

    bench/serve_pairs.py --braid build/release/braid --llama llama-server --model MODEL.gguf

Each pair starts both servers in turn, warms them up, and sends the texts. Of each it prints tokens per
second, the mean time to the first token, and the processor time of the server; then the medians of the
ratios braid / llama-server."""
import argparse, http.client, json, os, random, socket, statistics, subprocess, threading, time

WORDS = ("river mountain window letter garden engine paper summer winter teacher bridge market silver "
         "shadow voice pocket island forest corner candle story doctor kitchen bottle travel morning").split()


def prompt(number, words):
    r = random.Random(number)
    return "Write about this: " + " ".join(r.choice(WORDS) for _ in range(words)) + "."


def processor_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def complete(port, text, tokens, temperature, seed, out):
    body = {"prompt": text, "max_tokens": tokens, "temperature": temperature, "seed": seed, "stream": True,
            "ignore_eos": True, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": False,
            "stream_options": {"include_usage": True}}
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"port {port}: {answer.status} {answer.read()[:300]}")
    first = None
    for line in answer:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if first is None and event.get("choices"):
            first = time.monotonic() - start
        if event.get("usage"):
            out["tokens"] = event["usage"]["completion_tokens"]
            out["prompt"] = event["usage"]["prompt_tokens"]
    out["first"] = first
    out["end"] = time.monotonic() - start
    connection.close()


def measure(port, pid, o, seed):
    results = [{} for _ in range(o.sessions)]
    threads = [threading.Thread(target=complete, args=(port, prompt(seed * 1000 + i, o.words), o.tokens,
                                                       o.temperature, i, results[i])) for i in range(o.sessions)]
    before, start = processor_seconds(pid), time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wall = time.monotonic() - start
    tokens = sum(r["tokens"] for r in results)
    return {"rate": tokens / wall, "first": statistics.mean(r["first"] for r in results), "tokens": tokens,
            "prompt": results[0]["prompt"], "processor": processor_seconds(pid) - before, "wall": wall}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(command, o, seed, environment=None):
    port = free_port()
    server = subprocess.Popen(command + ["--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=environment)
    try:
        for _ in range(600):
            try:
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                c.request("GET", "/v1/models")
                if c.getresponse().status == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        complete(port, prompt(1, 8), 4, 0, 1, {})
        return measure(port, server.pid, o, seed)
    finally:
        server.terminate()
        server.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--braid", required=True)
    p.add_argument("--llama", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--sessions", type=int, default=8)
    p.add_argument("--words", type=int, default=100)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--temperature", type=float, default=0)
    p.add_argument("--pairs", type=int, default=3)
    o = p.parse_args()
    threads, context = str(o.threads), str(o.sessions * 1024)
    braid = [o.braid, "serve", o.model, "--threads", threads, "--parallel", str(o.sessions)]
    llama = [o.llama, "-m", o.model, "-t", threads, "-tb", threads, "-np", str(o.sessions), "-c", context]
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(os.path.abspath(o.llama)))
    pairs = []
    for pair in range(o.pairs):
        pairs.append((run(braid, o, pair), run(llama, o, pair, environment)))
        for name, r in zip(("braid", "llama-server"), pairs[-1]):
            print(f"{name:13} {r['rate']:7.1f} tokens/s  first token {r['first'] * 1e3:6.0f} ms  "
                  f"processor {r['processor']:6.2f} s  wall {r['wall']:5.2f} s  "
                  f"({r['tokens']} tokens, prompt {r['prompt']})", flush=True)
    for key, name in (("rate", "tokens/s"), ("first", "time to the first token"), ("processor", "processor time")):
        print(f"{name}: braid / llama-server = {statistics.median(a[key] / b[key] for a, b in pairs):.2f}")


main()
