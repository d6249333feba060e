"""The server with a certificate: an answer over TLS, and a client that leaves in the middle of a stream. Skipped (77)
without the program openssl."""

import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import urllib.request

if not shutil.which("openssl"):
    sys.exit(77)
SERVER = str(pathlib.Path(os.environ["BRAID"]).parent / "tests" / "fake_server")

make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
subprocess.run([*make.split(), *names], check=True, capture_output=True)


def start(**environment):
    return subprocess.Popen(
        [SERVER, "Hello."], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


server = start(FAKE_CERTIFICATE="cert.pem", FAKE_KEY="key.pem", FAKE_STEP_MS="20")
address = server.stdout.readline().strip()
assert address.startswith("https://127.0.0.1:"), address
trusted = ssl.create_default_context(cafile="cert.pem")


def ask(path, body=None):
    data = json.dumps(body).encode() if body else None
    return urllib.request.urlopen(urllib.request.Request(address + path, data), context=trusted, timeout=60)


assert json.load(ask("/health")) == {"status": "ok"}
assert json.load(ask("/v1/completions", {"prompt": "a"}))["choices"][0]["text"] == "Hello."
stream = ask("/v1/completions", {"prompt": "a", "stream": True})
assert stream.readline().startswith(b"data: ")
stream.close()
whole = ask("/v1/completions", {"prompt": "a", "stream": True}).read()
assert whole.endswith(b"data: [DONE]\n\n") and whole.count(b"data: ") == 8, whole
server.stdin.close()
assert server.wait(60) == 0

pathlib.Path("bad.pem").write_text("no certificate\n")
server = start(FAKE_CERTIFICATE="bad.pem", FAKE_KEY="key.pem")
assert server.wait(60) == 1
message = server.stderr.read()
assert "bad.pem" in message, message
