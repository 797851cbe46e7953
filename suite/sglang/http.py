"""One GET to a server, with every failure named; a redirect is not followed, so that no key leaves for elsewhere."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import urlsplit

from suite.sglang.errors import (
    NotSGLang,
    ServerError,
    ServerKeyRefused,
    ServerNotReady,
    ServerTLSError,
    ServerUnreachable,
)

_MOST_BYTES = 32 * 2**20
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def get(url: str, *, api_key: str | None = None, timeout_s: float = 30.0) -> str | None:
    """The text at ``url``, or ``None`` for 404.

    Raises:
        ServerError: one of its kinds; the text names ``url`` and what to do, never the key.
    """
    request = urllib.request.Request(url, headers={"Accept": "application/json, text/plain;q=0.9"})
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    handlers: list[Any] = [_NoRedirect()]
    if urlsplit(url).hostname in _LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))  # a proxy cannot know this machine's loopback
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
            body: bytes = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise _refused(url, error) from None
    except urllib.error.URLError as error:
        raise _unreachable(url, error.reason, timeout_s) from None
    except (OSError, ValueError) as error:  # a reset while reading, a URL that is none
        raise _unreachable(url, error, timeout_s) from None
    except Exception as error:  # http.client's own: a status line that is no HTTP
        raise NotSGLang(f"{url}: what answered there does not speak HTTP ({error})") from None
    if len(body) > _MOST_BYTES:
        raise NotSGLang(f"{url}: the answer is larger than {_MOST_BYTES >> 20} MiB")
    return body.decode("utf-8", errors="replace")


def _refused(url: str, error: urllib.error.HTTPError) -> ServerError:
    if error.code in (401, 403):
        return ServerKeyRefused(
            f"{url}: HTTP {error.code}: the server wants another API key; "
            "name the variable that holds it as api_key_env in the target's launch table"
        )
    if error.code == 503:
        return ServerNotReady(
            f"{url}: HTTP 503: the server is starting or shutting down; wait for it to be ready"
        )
    if 300 <= error.code < 400:
        return NotSGLang(
            f"{url}: HTTP {error.code}, a redirect to {error.headers.get('Location')!r}; "
            "give the URL of the SGLang server itself"
        )
    first = error.read(300).decode("utf-8", errors="replace").strip().splitlines()
    return ServerError(f"{url}: HTTP {error.code}" + (f": {first[0]}" if first else ""))


def _unreachable(url: str, reason: object, timeout_s: float) -> ServerError:
    if isinstance(reason, ssl.SSLError):
        return ServerTLSError(
            f"{url}: TLS failed: {reason}. Is it http rather than https? "
            "A certificate of your own authority is trusted when SSL_CERT_FILE names it"
        )
    if isinstance(reason, ConnectionRefusedError):
        return ServerUnreachable(f"{url}: connection refused: nothing listens there")
    if isinstance(reason, TimeoutError):
        return ServerUnreachable(f"{url}: no answer within {timeout_s:g} s")
    return ServerUnreachable(f"{url}: cannot be reached: {reason}")
