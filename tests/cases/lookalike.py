"""Something that answers like an SGLang server and is odd in chosen ways; in this process, on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

MODEL = "Qwen3.5-397B-A17B-NVFP4"
GAUGES = """\
sglang:num_running_reqs{{model_name="m",tp_rank="0"}} 0.0
sglang:num_queue_reqs{{model_name="m",tp_rank="0"}} 0.0
sglang:token_usage{{model_name="m",tp_rank="0"}} 0.0
sglang:max_total_num_tokens{{model_name="m",tp_rank="0"}} 400000.0
sglang:spec_accept_length{{model_name="m",tp_rank="0"}} {accept_length}
"""


@dataclass
class Odd:
    """What the look-alike does. ``details`` gives what answer number N (from 0) reports of its speculation."""

    version: str = "0.5.23"
    spec: bool = True
    tokens_a_step: int = 3
    step_s: float = 0.002
    finish: str = "length"
    info: dict[str, Any] = field(default_factory=dict)
    details: Callable[[int, int, int], dict[str, Any] | None] = lambda number, steps, tokens: None
    metrics: str | None = GAUGES.format(accept_length=0.0)
    meta_info: Callable[[int, int], dict[str, Any]] | None = None
    prefix: str = ""
    says: Any = None
    """What /server_info answers, whole, in place of its own; ``False``: it knows no such path."""
    owned_by: str | None = None
    flush_key: str | None = None
    """The only key that it takes for /flush_cache, as a server with an admin key."""
    paths: dict[str, Any] = field(default_factory=dict)
    """More paths, and the JSON they answer."""
    asked: list[str] = field(default_factory=list)

    def server_info(self) -> dict[str, Any]:
        """Its /server_info."""
        steps = {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
        return {
            "model_path": f"/models/{MODEL}",
            "served_model_name": MODEL,
            "version": self.version,
            "tp_size": 8,
            "dp_size": 1,
            "device": "cuda",
            "max_running_requests": 48,
            "speculative_algorithm": "EAGLE" if self.spec else None,
            **(steps if self.spec else {}),
            "internal_states": [{"memory_usage": {"token_capacity": 400000}}],
            **self.info,
        }


def reported(number: int, steps: int, tokens: int) -> dict[str, Any]:
    """What a present-day release reports of an answer of ``tokens`` in ``steps``, at three tokens per step."""
    return {
        "spec_verify_ct": steps,
        "spec_num_correct_drafts": 2 * steps,
        "spec_num_proposed_drafts": 3 * steps,
        "spec_correct_drafts_histogram": [0, 0, steps, 0],
    }


@contextmanager
def serving(odd: Odd) -> Iterator[str]:
    """Serve while the body runs; gives the base URL."""
    numbers = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            path = self._path()
            if path in ("/server_info", "/get_server_info"):
                if odd.says is False:
                    self._say(404, "<html>nginx 404</html>", "text/html")
                else:
                    self._json(odd.says or odd.server_info())
            elif path == "/v1/models":
                owner = {"owned_by": odd.owned_by} if odd.owned_by else {}
                self._json({"object": "list", "data": [{"id": MODEL, "object": "model", **owner}]})
            elif path in ("/metrics", "/metrics/") and odd.metrics is not None:
                self._say(200, odd.metrics, "text/plain")
            elif path in odd.paths:
                self._json(odd.paths[path])
            elif path in ("/health", "/health_generate"):
                self._say(200, "", "text/plain")
            else:
                self._say(404, '{"detail":"Not Found"}')

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            path = self._path()
            if path == "/flush_cache" and odd.flush_key not in (None, self._key()):
                self._say(401, '{"error":"Unauthorized"}')
            elif path == "/flush_cache":
                self._say(200, "Cache flushed.\n", "text/plain")
            elif path == "/generate" and odd.meta_info is not None:
                tokens = int(body["sampling_params"]["max_new_tokens"])
                meta = odd.meta_info(tokens // odd.tokens_a_step, tokens)
                self._json({"text": "word " * tokens, "meta_info": {"completion_tokens": tokens, **meta}})
            elif path.startswith("/v1/"):
                self._stream(body, "chat" in path)
            else:
                self._say(404, '{"detail":"Not Found"}')

        def _key(self) -> str:
            return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

        def _path(self) -> str:
            odd.asked.append(self.path)
            path = self.path.split("?")[0]
            if not path.startswith(odd.prefix):
                return "outside"
            return path.removeprefix(odd.prefix)

        def _json(self, value: Any) -> None:
            self._say(200, json.dumps(value))

        def _say(self, status: int, text: str, kind: str = "application/json") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, body: dict[str, Any], chat: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            number, wanted = next(numbers), int(body.get("max_tokens") or 16)
            per = odd.tokens_a_step if odd.spec else 1
            done = steps = 0
            while done < wanted:
                time.sleep(odd.step_s)
                fresh = min(per, wanted - done)
                done, steps = done + fresh, steps + 1
                finish = odd.finish if done == wanted else None
                self._event(_choice(chat, "word " * fresh, finish) | {"usage": _usage(done)})
            details = odd.details(number, steps, done)
            if details is not None and body.get("return_spec_tokens_details"):
                self._event({"choices": [], "sglext": {"spec_tokens_details": details}})
            self._event({"choices": [], "usage": _usage(done)})
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _event(self, value: dict[str, Any]) -> None:
            self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{odd.prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _choice(chat: bool, text: str, finish: str | None) -> dict[str, Any]:
    body = {"delta": {"content": text}} if chat else {"text": text}
    return {"choices": [{"index": 0, **body, "finish_reason": finish}]}


def _usage(tokens: int) -> dict[str, Any]:
    return {"prompt_tokens": 30, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 0}}
