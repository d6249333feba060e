"""/metrics and braid status of a training run and of a serving swarm; promtool checks the form where it is installed."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request

from loadlib import Limit
from modellib import make_model
from swarmlib import ENDLESS, PROGRAM, Braid, expect, workplace, write_run

BRAID = os.path.abspath(PROGRAM)


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


def check_form(text):
    if not shutil.which("promtool"):
        print("promtool is not installed, so the form is not checked")
        return
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"promtool: {done.stdout}{done.stderr}")


def value(text, name):
    found = re.search("^" + re.escape(name) + r" (\S+)$", text, re.M)
    expect(found, f"no {name} in:\n{text}")
    return float(found.group(1))


def status(address, *flags, code=0):
    done = subprocess.run([BRAID, "status", address, *flags], capture_output=True, text=True, check=False)
    expect(done.returncode == code, f"braid status: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def wait_for(condition, what, seconds=60):
    limit = Limit(seconds)
    while not condition():
        expect(limit.left() > 0, f"not seen: {what}")


def check_run(folder):
    run = Braid("up", write_run(folder, iterations=ENDLESS), "--relays", "6", "--page", "127.0.0.1:0")
    try:
        run.wait_for_iterations(3)
        address = next(e["text"].split()[-1] for e in run.of("note") if "the page of this run" in e["text"])
        os.kill(run.of("spawned")[-1]["process"], signal.SIGKILL)
        run.wait_for("expelled")
        wait_for(lambda: value(get(address + "/metrics"), "braid_run_peers_lost_total") == 1, "the lost peer")
        text = get(address + "/metrics")
        check_form(text)
        expect(value(text, "braid_run_iteration") >= 3, text)
        expect(sum(value(text, f'braid_run_peers{{stage="{i}"}}') for i in range(4)) == 7, text)
        expect(0 < value(text, "braid_run_goodput_ratio") <= 1, text)
        for name in "reroutes", "microbatches_lost", "repairs", "rollbacks":
            value(text, f"braid_run_{name}_total")
        for kind in "tensors", "messages":
            expect(value(text, f'braid_run_sent_bytes_total{{kind="{kind}"}}') > 0, text)
        expect(value(text, "braid_memory_bytes") > 1 << 20 and value(text, "braid_memory_limit_bytes") > 1 << 20, text)
        seen = status(address)
        expect(re.search(r"training for .*\niteration \d+ of 100000, loss [\d.]+\npeers\n", seen), seen)
        expect(seen.count(" working for ") == 7 and "lost for" in seen and "it died" in seen, seen)
        expect(seen.count("stage 0, leader  working for ") == 1 and seen.count("leader") == 1, f"no leader: {seen}")
        expect("training for" in status(address + "/"), "the address as a browser shows it")
        expect(json.loads(status(address, "--json"))["run"]["lost"] == 1, "the document has another number")
    finally:
        run.stop()
    expect("nothing answers" in status(address, code=1), "the run is over")
    expect("is no address" in status("here", code=2), "no address")
    expect("https is not supported" in status("https://127.0.0.1:1", code=2), "https")


def check_node(folder):
    """Each peer of a run may have a page; it has all members, with their states."""
    leader = Braid("node", "--lead", "--run", write_run(folder, iterations=ENDLESS, data_peers=1), "--listen", "127.0.0.1:0")
    ticket = leader.wait_for("ready")["ticket"]
    relays = [Braid("node", "--join", ticket, "--page=0") for _ in range(3)]
    try:
        for relay in relays:
            relay.wait_for_iterations(1)
            address = next(e["text"].split()[-1] for e in relay.of("note") if "the page of this run" in e["text"])
            seen = status(address)
            expect("training for" in seen and seen.count(" working for ") == 4, seen)
    finally:
        for peer in [*relays, leader]:
            peer.stop()


def check_serving(folder):
    model = make_model(folder)
    server = subprocess.Popen([BRAID, "serve", model, "--peers", "2", "--copies", "2", "--port", "0", "--threads", "1"], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        processes = []
        while len(processes) < 2:
            found = re.search(r"serves layers .* process (\d+)", server.stdout.readline())
            processes += [int(found.group(1))] if found else []
        wait_for(lambda: value(get(address + "/metrics"), 'braid_swarm_peers{state="serving"}') == 2, "two peers")
        body = json.dumps({"prompt": "the ", "max_tokens": 8, "ignore_eos": True}).encode()
        urllib.request.urlopen(urllib.request.Request(address + "/v1/completions", body, {"Content-Type": "application/json"})).read()
        sent = 'braid_swarm_sent_bytes_total{kind="tensors"}'
        wait_for(lambda: value(get(address + "/metrics"), sent) > 0, "rows sent to peers")
        text = get(address + "/metrics")
        check_form(text)
        expect(value(text, "braid_generated_tokens_total") >= 8, text)
        expect(value(text, "braid_time_to_first_token_seconds_count") == 1, text)
        expect(value(text, "braid_memory_bytes") > 1 << 20, text)
        for name in "braid_swarm_reroutes_total", "braid_swarm_recovery_seconds_sum", "braid_memory_limit_bytes":
            value(text, name)
        expect(status(address).count("layers 0-2  serving for") == 2, status(address))
        os.kill(processes[0], signal.SIGKILL)
        wait_for(lambda: "gone\n" in status(address), "the killed peer among the former ones", 5)
        seen = status(address)
        expect("layers 0-2  lost for " in seen, seen)
        expect(re.search(r"lost for \d+ s: \S+", seen), f"no reason: {seen}")
    finally:
        server.terminate()
        server.wait()


with workplace() as place:
    check_run(place)
    check_node(place)
    check_serving(place)
