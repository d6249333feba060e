"""A headless Chromium for tests of the page. Importing it ends the test with 77 (skipped) without chromium, chromium-driver
and python3-selenium."""

import json
import os
import shutil
import sys

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

PATIENCE = 60  # seconds; a busy machine


def start_browser(dark, width, *more_flags):
    options = webdriver.ChromeOptions()
    for flag in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},800", *more_flags]:
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


def check_width(browser):
    wide = browser.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} pixels wider than the window"


NEED_NAMES = {"button", "textbox", "spinbutton", "progressbar", "meter", "image", "region", "navigation", "DisclosureTriangle"}


def check_names(browser):
    """Each control, picture and region has a name that a screen reader announces."""
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    seen = set()
    for node in nodes:
        role = node.get("role", {}).get("value")
        if node.get("ignored") or role not in NEED_NAMES:
            continue
        seen.add(role)
        assert node.get("name", {}).get("value"), f"a {role} without a name: {node}"
    assert "button" in seen or "progressbar" in seen, seen


def check_logs(browser, address):
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith((address, "data:", "chrome:", "about:")), url
