"""A server that starts, prints, forks, hangs and dies as SGLang does, and costs nothing.

``--behave`` takes words: ``exit=2``, ``exit-rank=1``, ``sigquit``, ``hang``, ``slow=SECONDS``, ``deaf`` (to SIGTERM), ``orphan``
(children of its own whose parent leaves, one of them in a session of its own and with a clobbered
environment), ``html``, ``die-later=SECONDS``, ``say=TEXT``.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar


def log(text: str) -> None:
    print(f"[2026-01-01 00:00:00] {text}", flush=True)


def spawn_orphans(tag: str) -> None:
    """Grandchildren whose parent leaves at once: they belong to nobody by then."""
    sleeper = "import time; time.sleep(300)"
    parent = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {sleeper!r}, 'scheduler_TP0', {tag!r}])\n"
        f"subprocess.Popen([sys.executable, '-c', {sleeper!r}, 'detokenizer', {tag!r}], start_new_session=True, env={{}})\n"
        f"subprocess.Popen([sys.executable, '-c', {sleeper!r}, 'deaf', {tag!r}], stdout=subprocess.DEVNULL, "
        "stderr=subprocess.DEVNULL, start_new_session=True)\n"
    )
    subprocess.run([sys.executable, "-c", parent], check=True)


class Answers(http.server.BaseHTTPRequestHandler):
    html = False
    info: ClassVar[dict[str, object]] = {}

    def do_GET(self) -> None:
        if self.html:
            body, kind = b"<html>It works!</html>", "text/html"
        elif self.path in ("/model_info", "/server_info"):
            body, kind = json.dumps(self.info).encode(), "application/json"
        else:
            body, kind = b"", "text/plain"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return


def behave(words: list[str], tag: str) -> None:
    """What happens before the server answers."""
    for word in words:
        name, _, value = word.partition("=")
        if name == "say":
            print(value, flush=True)
        elif name == "orphan":
            spawn_orphans(tag)
        elif name == "slow":
            time.sleep(float(value))
        elif name == "hang":
            time.sleep(300)
        elif name == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif name == "exit":
            sys.exit(int(value))
        elif name == "exit-rank" and f"--node-rank {value} " in " ".join(sys.argv) + " ":
            sys.exit(3)
        elif name == "sigquit":
            log("Received sigquit from a child process. It usually means the child failed.")
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "die-later":
            threading.Timer(float(value), os.kill, (os.getpid(), signal.SIGKILL)).start()


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--behave", nargs="*", default=[])
    parser.add_argument("--tag", default="")
    parser.add_argument("--api-key")
    parser.add_argument("--note")
    parser.add_argument("--speculative-algorithm")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--dist-init-addr")
    args = parser.parse_args()
    if args.note is not None:
        seen = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}
        Path(args.note).write_text(json.dumps(seen))
    log(f"server_args={vars(args)}")
    log("Load weight begin. avail mem=21.66 GB")
    behave(args.behave, args.tag)
    log("Load weight end. elapsed=0.02 s, type=X, avail mem=21.66 GB, mem usage=-0.00 GB.")
    Answers.html = "html" in args.behave
    Answers.info = {
        "version": "0.5.23",
        "model_path": args.model_path,
        "speculative_algorithm": args.speculative_algorithm,
    }
    server = http.server.ThreadingHTTPServer((args.host, args.port), Answers)
    if "deaf" not in args.behave:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    log("INFO:     Application startup complete.")
    log("The server is fired up and ready to roll!")
    server.serve_forever()


if __name__ == "__main__":
    main()
