"""Stands for `sglang.launch_server`: answers as a server whose plugin runs, or does not, as FAKE says.

FAKE: a JSON object. `folder`: where told.json is written, of what it was started with; `states`: what internal_states
holds, else two schedulers with the configuration it was given; `path`: where that is served; `key`: what a client must
know; `never`: not healthy, ever; `exit`: end at once with this code; `end`: that with which SIGTERM ends it; `deaf`: it
does not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

FAKE: dict[str, Any] = json.loads(os.environ["FAKE"])


def argument(name: str) -> str:
    return sys.argv[len(sys.argv) - 1 - sys.argv[::-1].index(name) + 1]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        key = FAKE.get("key")
        if self.path == "/health":
            return self.answer(503 if FAKE.get("never") else 200, {})
        if self.path != FAKE.get("path", "/server_info"):
            return self.answer(404, {})
        if key is not None and self.headers["Authorization"] != f"Bearer {key}":
            return self.answer(401, {})
        running = {"vskipper": {"config": json.loads(os.environ["VSKIPPER_CONFIG"])}}
        return self.answer(200, {"internal_states": FAKE.get("states", [running, running])})

    def answer(self, code: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def main() -> None:
    # a scheduler that outlives its parent unless somebody ends it
    child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"])
    told = {"arguments": sys.argv[1:], "environment": dict(os.environ), "child": child.pid}
    signal.signal(signal.SIGTERM, signal.SIG_IGN if FAKE.get("deaf") else lambda *_: sys.exit(FAKE.get("end", 0)))
    file = Path(FAKE["folder"]) / "told.json"
    file.with_suffix(".part").write_text(json.dumps(told))
    file.with_suffix(".part").rename(file)
    if "exit" in FAKE:
        print("sglang: no such argument", file=sys.stderr, flush=True)
        sys.exit(FAKE["exit"])
    HTTPServer((argument("--host"), int(argument("--port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
