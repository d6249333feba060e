"""The page in a real Chromium, over the fake service: chat with streaming, stop, edit, the state, phone width. Skipped (77)
without chromium, chromium-driver and python3-selenium."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
    from selenium.webdriver.chrome.service import Service
except ImportError:
    # the package is for Debian's own Python
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3") and "PAGE_AGAIN" not in os.environ:
        os.environ["PAGE_AGAIN"] = "1"
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    sys.exit(77)
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    sys.exit(77)

SERVER = str(pathlib.Path(os.environ["BRAID"]).parent / "tests" / "fake_server")
REPLY = "A braided river splits, rejoins and finds a way round obstacles. <b>Not bold.</b> " * 3
PATIENCE = 60  # seconds; a busy machine


def start_server():
    server = subprocess.Popen([SERVER, REPLY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "FAKE_STEP_MS": "5"})
    return server, server.stdout.readline().strip()


def start_browser(dark, width):
    options = webdriver.ChromeOptions()
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},800"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
    )
    return browser


def wait(browser, condition):
    return WebDriverWait(browser, PATIENCE, poll_frequency=0.05).until(condition)


def texts(browser):
    return browser.execute_script("return [...document.querySelectorAll('#messages .text')].map((e) => e.textContent.trim())")


def last_note(browser):
    return browser.execute_script("return [...document.querySelectorAll('#messages .foot')].pop().textContent")


def chat(browser):
    question = browser.find_element(By.ID, "question")
    assert browser.switch_to.active_element == question
    question.send_keys("What is braid?", Keys.ENTER)
    wait(browser, lambda b: len(texts(b)) == 2 and texts(b)[1])
    partial = texts(browser)[1]
    wait(browser, lambda b: len(texts(b)[1]) > len(partial))  # it streams
    wait(browser, lambda b: texts(b)[1] == REPLY.strip())  # as text: no element comes from the model
    assert not browser.find_elements(By.CSS_SELECTOR, "#messages b")
    wait(browser, lambda b: "tokens" in last_note(b))


def stop(browser):
    browser.find_element(By.ID, "question").send_keys("More", Keys.ENTER)
    wait(browser, lambda b: len(texts(b)) == 4 and texts(b)[3])
    browser.find_element(By.ID, "stop").click()
    wait(browser, lambda b: "stopped" in last_note(b))
    assert len(texts(browser)[3]) < len(REPLY.strip()), texts(browser)


def edit(browser):
    browser.find_elements(By.XPATH, "//button[text()='Edit']")[1].click()
    assert len(texts(browser)) == 2
    question = browser.find_element(By.ID, "question")
    assert question.get_attribute("value") == "More"
    question.send_keys(" please", Keys.ENTER)
    wait(browser, lambda b: len(texts(b)) == 4 and texts(b)[3] == REPLY.strip())
    assert texts(browser)[2] == "More please"


def status(browser):
    browser.find_element(By.ID, "show-status").click()
    wait(browser, lambda b: "Tokens written" in b.find_element(By.ID, "figures").text)
    assert browser.find_element(By.ID, "state").text == "ready"
    assert browser.find_element(By.ID, "alone").is_displayed()


def check_width(browser):
    wide = browser.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} pixels wider than the window"


def check_logs(browser, address):
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith((address, "data:", "chrome:", "about:")), url


def run(dark, width):
    server, address = start_server()
    browser = start_browser(dark, width)
    try:
        browser.get(address)
        wait(browser, lambda b: b.find_element(By.ID, "model").text == "fake/model:1")
        chat(browser)
        check_width(browser)
        browser.save_screenshot(f"chat-{width}.png")
        if width > 600:
            stop(browser)
            edit(browser)
        status(browser)
        check_width(browser)
        browser.save_screenshot(f"status-{width}.png")
        check_logs(browser, address)
    finally:
        browser.quit()
        server.stdin.close()
        server.wait()


start = time.time()
run(False, 1100)
run(True, 390)
print(f"{time.time() - start:.1f} s")
