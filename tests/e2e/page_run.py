"""The page of a training run in a real Chromium: the loss curve moves, a killed peer leaves the map with its reason, the page
goes on after a restart of its server. Skipped (77) without a browser."""

import json
import os
import re
import signal
import urllib.error
import urllib.request

from browserlib import By, check_logs, check_names, check_width, start_browser, wait
from loadlib import Limit
from swarmlib import ENDLESS, Braid, expect, free_ports, workplace, write_run

LEAVES_WITHIN = 5  # seconds


def page_of(run):
    notes = lambda: [e["text"].split()[-1] for e in run.of("note") if "the page of this run" in e["text"]]
    run.wait_until(notes, "the page's address")
    return notes()[0]


def text_of(browser, element):
    return browser.find_element(By.ID, element).get_attribute("textContent")


def curve(browser):
    return browser.execute_script("const c = document.querySelector('#loss polyline.train'); return c ? c.getAttribute('points') : ''")


def peers_of_stages(browser):
    return browser.execute_script("return [...document.querySelectorAll('#stages .stage')].map((s) => [...s.querySelectorAll('.peer b')].map((p) => p.textContent))")


def watch_training(browser):
    wait(browser, lambda b: text_of(b, "state") == "training")
    wait(browser, lambda b: curve(b).count(",") > 3)
    before = curve(browser)
    wait(browser, lambda b: curve(b) != before)
    wait(browser, lambda b: "held-out" in text_of(b, "loss-now"))
    for figure in "Iteration", "Tokens a second", "Work used", "Memory":
        expect(figure in text_of(browser, "run-figures"), f"no {figure}: {text_of(browser, 'run-figures')}")
    wait(browser, lambda b: len(peers_of_stages(b)) == 4 and all(len(stage) == 2 for stage in peers_of_stages(b)))
    leaders = browser.execute_script("return [...document.querySelectorAll('#stages .peer')].filter((p) => p.textContent.includes('leader')).length")
    expect(leaders == 1, f"{leaders} peers are marked as the leader")


def kill_relay(browsers, run):
    victim = [event for event in run.of("spawned") if event["role"].startswith("relay")][-1]
    os.kill(victim["process"], signal.SIGKILL)
    limit = Limit(LEAVES_WITHIN)
    peer = run.wait_for("expelled", reason="it died")["peer"][:8]
    for browser in browsers:
        while any(peer in stage for stage in peers_of_stages(browser)):
            expect(limit.left() > 0, f"the killed peer is on the map after {LEAVES_WITHIN} s: {peers_of_stages(browser)}")
        wait(browser, lambda b: re.search(peer + r" \(stage \d\) lost: it died", text_of(b, "run-gone")))
        wait(browser, lambda b: peer + " was lost from stage" in text_of(b, "timeline"))
        wait(browser, lambda b: "×" in text_of(b, "loss"))


def use_keyboard(browser):
    """The table and the timeline scroll, so both must be reachable; the details open by a key."""
    summary = browser.find_element(By.CSS_SELECTOR, "#run summary")
    summary.send_keys(" ")
    wait(browser, lambda b: b.find_element(By.ID, "run-peers").is_displayed())
    reachable = browser.execute_script("return [...document.querySelectorAll('#run [tabindex=\"0\"]')].every((e) => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))")
    expect(reachable, "an element that the keyboard reaches has no name")


def check_swarm(folder):
    run = Braid("up", write_run(folder, iterations=ENDLESS), "--relays", "6", "--page", "127.0.0.1:0")
    address = page_of(run)
    browsers = [start_browser(False, 1100), start_browser(True, 390)]
    try:
        for browser in browsers:
            browser.get(address)
        for browser in browsers:
            watch_training(browser)
        kill_relay(browsers, run)
        use_keyboard(browsers[0])
        for browser, name in zip(browsers, ("wide", "phone-dark")):
            check_width(browser)
            check_names(browser)
            browser.save_screenshot(f"run-{name}.png")
            check_logs(browser, address)
    finally:
        for browser in browsers:
            browser.quit()
        run.stop()


def check_restart(folder):
    """The same page, without a reload, shows the next run at its address."""
    port = free_ports(1)[0]
    flags = ("train", "--solo", write_run(folder, iterations=ENDLESS, stages="[3]", data_peers=1), "--threads", "1", "--page", str(port))
    run = Braid(*flags)
    address = page_of(run)
    browser = start_browser(False, 1100)
    try:
        browser.get(address)
        wait(browser, lambda b: "this pro" in str(peers_of_stages(b)) and curve(b))
        run.stop()
        wait(browser, lambda b: text_of(b, "state") == "the server does not answer")
        run = Braid(*flags)
        wait(browser, lambda b: text_of(b, "state") == "training")
        wait(browser, lambda b: curve(b))
    finally:
        browser.quit()
        run.stop()


def check_key(folder):
    """Another address than loopback needs a key, and the page asks for it."""
    keys = os.path.join(folder, "keys.txt")
    with open(keys, "w", encoding="ascii") as file:
        file.write("reader long-secret\n")
    flags = ("train", "--solo", write_run(folder, iterations=ENDLESS, stages="[3]", data_peers=1), "--threads", "1", "--page=0.0.0.0:0")
    refused = Braid(*flags)
    expect(refused.finish() == 1 and any("there is no key" in line for line in refused.complaints), f"not refused: {refused.complaints}")
    run = Braid(*flags, "--page-keys", keys)
    address = page_of(run).replace("0.0.0.0", "127.0.0.1")
    browser = start_browser(False, 1100)
    try:
        try:
            urllib.request.urlopen(address + "/v1/swarm")
            expect(False, "the state needs no key")
        except urllib.error.HTTPError as error:
            expect(error.code == 401 and "key" in json.load(error)["error"]["message"], f"status {error.code}")
        browser.get(address)
        wait(browser, lambda b: text_of(b, "state") == "needs a key")
        key = browser.find_element(By.ID, "key")
        wait(browser, lambda b: key.is_displayed())
        key.send_keys("long-secret\t")
        wait(browser, lambda b: text_of(b, "state") == "training")
    finally:
        browser.quit()
        run.stop()


with workplace() as place:
    check_swarm(place)
    check_restart(place)
    check_key(place)
