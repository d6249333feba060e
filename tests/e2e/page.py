"""The page in a real Chromium, over the fake service: chat with streaming, stop, edit, the state, phone width. Skipped (77)
without chromium, chromium-driver and python3-selenium."""

import json
import os
import pathlib
import subprocess
import time

from browserlib import By, Keys, check_logs, check_names, check_width, start_browser, wait

SERVER = str(pathlib.Path(os.environ["BRAID"]).parent / "tests" / "fake_server")
REPLY = "A braided river splits, rejoins and finds a way round obstacles. <b>Not bold.</b> " * 3


def start_server():
    server = subprocess.Popen([SERVER, REPLY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "FAKE_STEP_MS": "5"})
    return server, server.stdout.readline().strip()


def texts(browser):
    return browser.execute_script("return [...document.querySelectorAll('#messages .text')].map((e) => e.textContent.trim())")


def last_note(browser):
    return browser.execute_script("return [...document.querySelectorAll('#messages .foot')].pop().textContent")


def chat(browser):
    question = browser.find_element(By.ID, "question")
    wait(browser, lambda b: b.switch_to.active_element == question)
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


def system_prompt(browser):
    browser.find_element(By.ID, "clear").click()
    wait(browser, lambda b: not texts(b))
    browser.find_element(By.CSS_SELECTOR, "#settings summary").click()
    browser.find_element(By.ID, "system").send_keys("Be brief.")
    browser.execute_script("const send = window.fetch; window.bodies = []; window.fetch = (...a) => { window.bodies.push((a[1] || {}).body || ''); return send(...a); };")
    browser.find_element(By.ID, "question").send_keys("Why?", Keys.ENTER)
    wait(browser, lambda b: len(texts(b)) == 2 and texts(b)[1] == REPLY.strip())
    sent = [json.loads(body) for body in browser.execute_script("return window.bodies") if body]
    assert sent[0]["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}], sent


def lost_server(browser, server):
    browser.find_element(By.ID, "show-chat").click()
    browser.find_element(By.ID, "question").send_keys("Again?", Keys.ENTER)
    wait(browser, lambda b: len(texts(b)) % 2 == 0 and texts(b)[-1])
    server.kill()
    wait(browser, lambda b: b.find_element(By.ID, "mistake").text == "the connection to the server was lost")
    wait(browser, lambda b: b.find_element(By.ID, "state").text == "the server does not answer")


def status(browser):
    browser.find_element(By.ID, "show-status").click()
    wait(browser, lambda b: "Tokens written" in b.find_element(By.ID, "figures").text)
    assert browser.find_element(By.ID, "state").text == "ready"
    assert browser.find_element(By.ID, "alone").is_displayed()


def run(dark, width):
    server, address = start_server()
    browser = start_browser(dark, width)
    try:
        browser.get(address)
        wait(browser, lambda b: b.find_element(By.ID, "model").text == "fake/model:1")
        chat(browser)
        check_width(browser)
        check_names(browser)
        browser.save_screenshot(f"chat-{width}.png")
        if width > 600:
            stop(browser)
            edit(browser)
            system_prompt(browser)
        status(browser)
        check_width(browser)
        check_names(browser)
        browser.save_screenshot(f"status-{width}.png")
        check_logs(browser, address)
        lost_server(browser, server)
    finally:
        browser.quit()
        server.stdin.close()
        server.wait()


start = time.time()
run(False, 1100)
run(True, 390)
print(f"{time.time() - start:.1f} s")
