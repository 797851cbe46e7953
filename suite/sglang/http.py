"""The one HTTP client for all that is no measuring stream: readiness, probes, flushes, the list of models.

An answer is bounded in bytes and in seconds as a whole, whatever its server does. Loopback, and so a tunnel, is never
asked through a proxy; other hosts as the environment says (``http_proxy``, ``https_proxy``, ``no_proxy``). A redirect
is never followed, so that no key leaves for elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from aiohttp import http_exceptions

from suite.foreign import ERROR_BYTES, PAGE_BYTES, NotJSON, json_of, one_line
from suite.redact import Secret, reveal
from suite.sglang.errors import (
    ServerKeyRefused,
    ServerNotReady,
    ServerProbeError,
    ServerTLSError,
    ServerUnreachable,
    UnreadableServer,
)
from suite.sglang.proxies import proxy_for

T = TypeVar("T")

_OTHER_WAY = "is it http:// rather than https://, or the other way round?"


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, whatever its status: 3xx too, for redirects are not followed."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def ask(
    url: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    api_key: Secret | str | None = None,
    timeout_s: float = 30.0,
    most_bytes: int = PAGE_BYTES,
) -> Response:
    """Ask once. ``timeout_s`` is for all of it, from the name's look-up to the last byte.

    Of an answer with another status than 200 only the first bytes are read. May be called from anywhere, also while
    an event loop runs in this thread.

    Raises:
        ServerUnreachable: refused, no route, no such name, cut off, or not done in time.
        ServerTLSError: the certificate or the protocol was not accepted.
        UnreadableServer: what answered does not speak HTTP, or answered more than ``most_bytes``.
    """
    sent = {"Accept": "application/json, text/plain;q=0.9", "Accept-Encoding": "identity", **(headers or {})}
    if api_key:
        sent["Authorization"] = f"Bearer {reveal(api_key)}"
    named = without_credentials(url)
    if unsendable := [name for name, value in sent.items() if not value.isprintable()]:
        raise ServerUnreachable(
            f"{named}: not asked: the header {unsendable[0]} holds a line break or a control"
        )
    try:
        return _run(_ask(url, method, body, sent, timeout_s, most_bytes))
    except TimeoutError:
        raise ServerUnreachable(f"{named}: no answer within {timeout_s:g} s") from None
    except _TooLarge:
        raise UnreadableServer(f"{named}: the answer is larger than {most_bytes / 2**20:g} MiB") from None
    except aiohttp.ClientSSLError as error:
        raise _tls(named, error) from None
    except aiohttp.ClientProxyConnectionError as error:
        said = one_line(error.strerror or str(error.os_error))
        raise ServerUnreachable(f"{named}: {_through(url)} cannot be reached ({said}); {_SPARE}") from None
    except aiohttp.ClientHttpProxyError as error:
        raise ServerUnreachable(f"{named}: {_through(url)} answered {error.status}; {_SPARE}") from None
    except aiohttp.ClientConnectorError as error:
        raise _unreachable(named, error.os_error) from None
    except aiohttp.ServerDisconnectedError as error:
        if isinstance(error.message, str) or error.message is None:
            raise ServerUnreachable(f"{named}: it closed the connection without an answer") from None
        raise UnreadableServer(f"{named}: what answered there does not speak HTTP") from None
    except aiohttp.ClientPayloadError:
        raise ServerUnreachable(f"{named}: the answer broke off before its end") from None
    except (aiohttp.ClientResponseError, http_exceptions.HttpProcessingError) as error:
        said = one_line(str(getattr(error, "message", "") or error), 120)
        raise UnreadableServer(f"{named}: what answered there does not speak HTTP ({said})") from None
    except (OSError, aiohttp.ClientError, UnicodeError) as error:  # a reset; a URL or a name that is none
        raise _unreachable(named, error) from None


def get(
    url: str,
    *,
    api_key: Secret | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> str | None:
    """The text at ``url``, or ``None`` for 404.

    Raises:
        ServerProbeError: one of its kinds; the text names ``url`` and what to do, never the key.
    """
    answer = ask(url, api_key=api_key, headers=headers, timeout_s=timeout_s)
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise refused(without_credentials(url), answer)
    return answer.text


def get_json(
    url: str,
    *,
    api_key: Secret | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> Any:
    """The JSON value at ``url``, or ``None`` for 404.

    Raises:
        ServerProbeError: as :func:`get`; UnreadableServer for what is no JSON.
    """
    text = get(url, api_key=api_key, headers=headers, timeout_s=timeout_s)
    return None if text is None else parsed(text, without_credentials(url))


def parsed(text: str, url: str) -> Any:
    """The JSON value that ``url`` answered.

    Raises:
        UnreadableServer: it is none, or not one that can be read.
    """
    try:
        return json_of(text)
    except NotJSON as error:
        looks = "the answer is an HTML page" if text.lstrip()[:1] == "<" else str(error)
        raise UnreadableServer(
            f"{url}: {looks}, so this is no SGLang server (a proxy, perhaps); "
            f"the answer begins: {one_line(text, 80)!r}"
        ) from None


def refused(url: str, answer: Response) -> ServerProbeError:
    """What an answer other than 200 means."""
    if answer.status >= 400 and proxy_for(url) and answer.status not in (401, 404):
        said = one_line(answer.body)
        return ServerUnreachable(
            f"{url}: HTTP {answer.status}, from the server or from {_through(url)}; {_SPARE}"
            + (f"; it says: {said}" if said else "")
        )
    if answer.status in (401, 403):
        return ServerKeyRefused(
            f"{url}: HTTP {answer.status}: the server wants another API key; "
            "name the variable that holds it as api_key_env in the target's launch table"
        )
    if answer.status == 503:
        return ServerNotReady(
            f"{url}: HTTP 503: the server is starting or shutting down; wait for it to be ready"
        )
    if 300 <= answer.status < 400:
        to = without_credentials(one_line(answer.headers.get("Location", "")))
        return UnreadableServer(
            f"{url}: HTTP {answer.status}, a redirect to {to!r}; give the URL of the SGLang server itself"
        )
    said = one_line(answer.body)
    return ServerProbeError(f"{url}: HTTP {answer.status}" + (f": {said}" if said else ""))


_SPARE = "name the server in no_proxy if it needs none"


def _through(url: str) -> str:
    return f"the proxy {without_credentials(proxy_for(url) or 'of the environment')} of this environment"


def without_credentials(url: str) -> str:
    """``url`` without ``user:password@``, for people."""
    start, slashes, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{start}{slashes}{authority.rpartition('@')[2]}{slash}{path}" if slashes else url


class _TooLarge(Exception):
    """The answer has more bytes than are read."""


async def _ask(
    url: str, method: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float, most_bytes: int
) -> Response:
    async with asyncio.timeout(timeout_s):
        # no cookies, no .netrc (trust_env), no decompression of what was asked for uncompressed
        session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        async with (
            session,
            session.request(
                method, url, data=body, headers=headers, allow_redirects=False, proxy=proxy_for(url)
            ) as response,
        ):
            whole = response.status == 200
            taken = await _read(response.content, most_bytes if whole else ERROR_BYTES, cut=not whole)
            return Response(response.status, dict(response.headers), taken)


async def _read(content: aiohttp.StreamReader, most: int, cut: bool) -> bytes:
    pieces, size = [], 0
    async for piece in content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            if cut:
                break
            raise _TooLarge
    return b"".join(pieces)[:most]


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end in a loop of its own, in another thread if this one's loop is taken."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _in_own_loop(work)
    with ThreadPoolExecutor(1, thread_name_prefix="suite-http") as pool:
        return pool.submit(_in_own_loop, work).result()


def _in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, but a look-up of a name that hangs in a thread of the loop's is not waited for."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _tls(url: str, error: aiohttp.ClientSSLError) -> ServerTLSError:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ServerTLSError(
            f"{url}: TLS: its certificate is not trusted ({cause.verify_message}); "
            "one of your own authority is trusted when SSL_CERT_FILE names that authority's"
        )
    said = getattr(cause, "reason", None) or one_line(str(cause))
    return ServerTLSError(f"{url}: TLS: {said}; {_OTHER_WAY}")


def _unreachable(url: str, reason: BaseException) -> ServerProbeError:
    if isinstance(reason, ssl.SSLError):
        return ServerTLSError(f"{url}: TLS: {reason.reason}; {_OTHER_WAY}")
    if isinstance(reason, ConnectionRefusedError):
        return ServerUnreachable(f"{url}: connection refused: nothing listens there")
    if isinstance(reason, socket.gaierror):
        return ServerUnreachable(f"{url}: no such host ({reason.strerror})")
    said = one_line(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__)
    return ServerUnreachable(f"{url}: cannot be reached: {said}")
