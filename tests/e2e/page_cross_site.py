"""Pages of other sites in a real Chromium cannot use the server: scripts, forms, frames, events, and a name of another site
that resolves to this machine. Skipped (77) without a browser."""

import http.server
import os
import pathlib
import subprocess
import threading
import urllib.request

from browserlib import start_browser, wait

SERVER = str(pathlib.Path(os.environ["BRAID"]).parent / "tests" / "fake_server")
NAME = "evil.example"
BODY = '{"prompt": "a", "max_tokens": 2}'
PAGE = """<!doctype html><title>another site</title>
<form id=f method=post enctype=text/plain target=answer action=TARGET/v1/completions>
<input name='{"prompt": "a", "x": "' value='"}'></form><iframe name=answer></iframe><iframe id=framed src=TARGET/></iframe>
<script>
const seen = {}, post = {method: "POST", body: 'BODY'};
const note = (name) => (answer) => { seen[name] = String(answer.type || answer.status || answer); };
fetch("TARGET/v1/completions", post).then(note("fetch"), note("fetch"));
fetch("TARGET/v1/completions", {...post, mode: "no-cors"}).then(note("opaque"), note("opaque"));
fetch("TARGET/v1/completions", {...post, headers: {"Content-Type": "application/json"}}).then(note("json"), note("json"));
fetch("TARGET/v1/swarm").then(note("swarm"), note("swarm"));
const events = new EventSource("TARGET/events");
events.onmessage = events.onopen = note("events");
events.onerror = () => note("events")("refused");
document.getElementById("f").submit();
window.seen = seen;
</script>"""


class Handler(http.server.BaseHTTPRequestHandler):
    target = ""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.replace("TARGET", self.target).replace("BODY", BODY).encode())

    def log_message(self, *_):
        pass


def metric(address, name):
    with urllib.request.urlopen(address + "/metrics") as answer:
        return sum(int(line.split()[-1]) for line in answer.read().decode().splitlines() if line.startswith(name))


def another_origin(browser, address, site):
    refused = 'braid_http_requests_total{endpoint="completions",status="4xx"}'
    browser.get(f"http://127.0.0.1:{site}/")
    wait(browser, lambda b: len(b.execute_script("return Object.keys(window.seen)")) == 5)
    seen = browser.execute_script("return window.seen")
    for name in "fetch", "json", "swarm":
        assert "TypeError" in seen[name], seen
    assert seen["opaque"] == "opaque" and seen["events"] == "refused", seen
    wait(browser, lambda b: metric(address, refused) >= 3)  # two scripts and the form; "json" ends at its preflight
    assert metric(address, "braid_texts_total") == 0, "another site had a text"
    browser.switch_to.frame("framed")
    assert not browser.execute_script("return document.getElementById('chat')"), "another site frames the page"
    browser.switch_to.default_content()


def rebound_name(browser, address):
    """The page of NAME is of the server's origin, for the browser."""
    browser.get(address.replace("127.0.0.1", NAME) + "/")
    assert "wrong_host" in browser.page_source, browser.page_source[:300]
    browser.execute_script("fetch('/v1/completions', {method: 'POST', body: arguments[0]}).then((r) => { window.status = String(r.status); })", BODY)
    wait(browser, lambda b: b.execute_script("return window.status") == "403")
    assert metric(address, "braid_texts_total") == 0, "another name had a text"


def own_page(browser, address):
    browser.get(address)
    wait(browser, lambda b: b.execute_script("return document.getElementById('model').textContent"))
    browser.execute_script("fetch('/v1/completions', {method: 'POST', body: arguments[0]}).then((r) => { window.status = String(r.status); })", BODY)
    wait(browser, lambda b: b.execute_script("return window.status") == "200")
    assert metric(address, "braid_texts_total") == 1


server = subprocess.Popen([SERVER, "Hello."], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().strip()
site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
Handler.target = address
threading.Thread(target=site.serve_forever, daemon=True).start()
browser = start_browser(False, 1100, f"--host-resolver-rules=MAP {NAME} 127.0.0.1")
try:
    another_origin(browser, address, site.server_port)
    rebound_name(browser, address)
    own_page(browser, address)
finally:
    browser.quit()
    server.stdin.close()
    server.wait()
