"""Sends one request through the openai package and gives every way it can fail a name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
import openai

from suite.foreign import ERROR_BYTES, ERROR_S, one_line
from suite.load.endpoint import Endpoint, Sampling
from suite.load.raw_stream import START_GATE, RawStream, StartGate, clock
from suite.load.records import Fault, FaultKind, LoadError
from suite.load.transport import StampingTransport, TooLarge
from suite.load.workloads import Prompt
from suite.redact import reveal
from suite.sglang import http as sglang_http
from suite.sglang.errors import ServerProbeError, ServerUnreachable
from suite.sglang.proxies import proxy_for

_CONNECT_TIMEOUT_S = 10.0


class Client:
    """An AsyncOpenAI client without retries, without a connection limit, over one of two transports."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.model = endpoint.model
        self._stamping = StampingTransport() if endpoint.uses_stamping else None
        timeout = httpx2.Timeout(None, connect=_CONNECT_TIMEOUT_S)
        http: httpx2.AsyncClient
        if self._stamping is not None:
            http = httpx2.AsyncClient(transport=self._stamping, timeout=timeout, trust_env=False)
        else:
            # max_connections: aiohttp reads 0 as no limit, and None would leave it at its default of 100
            limits = httpx2.Limits(max_connections=0, keepalive_expiry=2.0)
            http = _PublicClient(
                timeout=timeout, limits=limits, follow_redirects=False, mounts=_direct(endpoint.root_url)
            )
        self._openai = openai.AsyncOpenAI(
            base_url=endpoint.v1_url,
            api_key=reveal(endpoint.api_key) if endpoint.api_key else "none",
            max_retries=0,
            http_client=http,
            default_headers={"Accept-Encoding": "identity", **endpoint.headers},
        )

    async def open_ahead(self, connections: int) -> None:
        """Have connections ready before the clock starts (the public transport opens them on demand)."""
        if self._stamping is not None:
            await self._stamping.open_ahead(httpx2.URL(self.endpoint.root_url), connections)

    def set_clocks(self) -> None:
        """Keep the kernel's stamps on our clock; call a few times a second."""
        if self._stamping is not None:
            self._stamping.set_clocks()

    def kernel_stamped(self, reads: int) -> bool:
        """Whether arrivals carry the kernel's time: all but the few before stamps are switched on, or a stray one."""
        return self._stamping is not None and self._stamping.unstamped <= 8 + reads // 100

    async def first_model(self) -> str:
        """The id of the server's first model; LoadError if the server cannot be asked or has none."""
        where = f"{self.endpoint.v1_url}/models"
        try:
            page = await asyncio.to_thread(
                sglang_http.get_json,
                where,
                api_key=self.endpoint.api_key,
                headers=self.endpoint.headers,
                timeout_s=_CONNECT_TIMEOUT_S,
            )
        except ServerUnreachable as error:
            raise LoadError(f"no server answers at {error}") from None
        except ServerProbeError as error:
            raise LoadError(str(error)) from None
        models = page.get("data") if isinstance(page, dict) else None
        first = models[0] if isinstance(models, list) and models else None
        if not isinstance(first, dict) or not isinstance(first.get("id"), str):
            raise LoadError(f"{where} lists no model; name one (--model)")
        return str(first["id"])

    async def ask(
        self, prompt: Prompt, sampling: Sampling, max_tokens: int, index: int, start_gate: StartGate
    ) -> Fault | None:
        """Play one request to its end. Its bytes and stamps are in `start_gate.arrivals`; a fault comes back as a value.

        Cancellation goes through to the caller and closes the connection.
        """
        token = START_GATE.set(start_gate)
        try:
            response = await self._send(prompt, sampling, max_tokens, index)
            try:
                return await _receive(response, start_gate)
            finally:
                await response.aclose()
        except openai.APIStatusError as error:
            kind_of = FaultKind.server_error if error.status_code >= 500 else FaultKind.rejected
            return Fault(kind_of, _server_message(error), error.status_code, clock())
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, OSError, ValueError) as error:
            fault = _connection_fault(error)
            _let_go_of_frames(error)
            return fault
        finally:
            START_GATE.reset(token)

    async def close(self) -> None:
        """Close every connection."""
        await self._openai.close()

    async def _send(self, prompt: Prompt, sampling: Sampling, max_tokens: int, index: int) -> httpx2.Response:
        """The response with its head in and its body still coming, or an exception of the openai package.

        `AsyncOpenAI.post` is what `create` itself calls; called directly it spares walking through every message.
        """
        body: dict[str, Any] = {"model": self.model, "max_tokens": max_tokens}
        path = "/chat/completions"
        if prompt.token_ids:
            path, body["prompt"] = "/completions", list(prompt.token_ids)
        elif self.endpoint.api == "completions":
            path, body["prompt"] = "/completions", prompt.text
        else:
            body["messages"] = list(prompt.messages)
        body |= request_body(sampling, index)
        # stream: do not read the body; cast_to: hand out the response itself, not a stream of parsed events
        response: object = await self._openai.post(
            path, cast_to=httpx2.Response, body=body, stream=True, stream_cls=openai.AsyncStream[object]
        )
        assert isinstance(response, httpx2.Response)
        return response


def _direct(url: str) -> dict[str, None]:
    """What keeps httpx from taking a proxy of the environment where none is to be taken."""
    host = urlsplit(url).hostname or ""
    return {} if proxy_for(url) else {f"all://[{host}]" if ":" in host else f"all://{host}": None}


class _StartLine(httpx2.AsyncBaseTransport):
    """Holds a request at its start gate, then hands it to the transport inside."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        start_gate = START_GATE.get()
        if start_gate is not None:
            await start_gate.start()
        response = await self._inner.handle_async_request(request)
        if not _is_events(response):
            response.stream = _Beginning(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Beginning(httpx2.AsyncByteStream):
    """A body that is no stream of events, cut at `ERROR_BYTES` and after `ERROR_S` seconds."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = ERROR_BYTES
        try:
            async with asyncio.timeout(ERROR_S):
                async for piece in self._whole:
                    yield piece[:left]
                    left -= len(piece)
                    if left <= 0:
                        return
        except TimeoutError:
            return

    async def aclose(self) -> None:
        await self._whole.aclose()


class _PublicClient(openai.DefaultAioHttpClient):
    """The openai package's aiohttp client with the starting line in front of each of its transports."""

    def _init_transport(self, *args: Any, **kwargs: Any) -> httpx2.AsyncBaseTransport:
        return _StartLine(super()._init_transport(*args, **kwargs))

    def _init_proxy_transport(self, *args: Any, **kwargs: Any) -> httpx2.AsyncBaseTransport:
        return _StartLine(super()._init_proxy_transport(*args, **kwargs))


def request_body(sampling: Sampling, index: int) -> dict[str, Any]:
    """What is the same in every request's body: how to sample, and to stream with all the counts there are."""
    body: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }
    for name in ("temperature", "top_p", "min_tokens"):
        if (value := getattr(sampling, name)) is not None:
            body[name] = value
    if sampling.n != 1:
        body["n"] = sampling.n
    if sampling.seed is not None:
        body["seed"] = sampling.seed + (index if sampling.seed_per_request else 0)
    if sampling.ignore_eos:
        body["ignore_eos"] = True
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.chat_template_kwargs is not None:
        body["chat_template_kwargs"] = dict(sampling.chat_template_kwargs)
    body.update(sampling.extra_body)
    return body


async def _receive(response: httpx2.Response, start_gate: StartGate) -> Fault | None:
    if not _is_events(response):
        kind = one_line(response.headers.get("content-type", ""), 80) or "no type"
        body = one_line(await response.aread())
        return Fault(FaultKind.malformed, f"expected an event stream, got {kind}: {body}", 200, clock())
    arrivals = start_gate.arrivals
    if arrivals.complete is not None:  # the stamping transport writes the reads; be woken once, at the end
        await asyncio.shield(arrivals.complete)
        return None
    left = arrivals.most_bytes
    async for piece in response.aiter_raw():
        arrivals.add(clock(), piece)
        left -= len(piece)
        if left < 0:
            return oversized(arrivals)
    return None


def _is_events(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.startswith("text/event-stream")


def oversized(arrivals: RawStream) -> Fault:
    """The fault of an answer that is larger than any answer to what was asked."""
    return Fault(FaultKind.oversized, f"more than {arrivals.most_bytes >> 20} MiB came", at_s=clock())


def _let_go_of_frames(error: BaseException | None) -> None:
    """Frames of a traceback hold the answer, and the answer's future holds the error: a cycle that would stay long."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _connection_fault(error: Exception) -> Fault:
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) and error.__cause__ else error
    said, kind = one_line(str(cause)) or type(cause).__name__, FaultKind.reset
    if isinstance(cause, TooLarge):
        kind = FaultKind.oversized
    elif isinstance(
        cause.__cause__, aiohttp.ClientConnectionError
    ):  # its httpx name is a connect error, whatever it was
        kind = (
            FaultKind.refused
            if isinstance(cause.__cause__, aiohttp.ClientConnectorError)
            else FaultKind.reset
        )
    elif isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)):
        kind = FaultKind.refused
    elif isinstance(cause, httpx2.TimeoutException):
        kind = FaultKind.timed_out
    elif isinstance(cause, (httpx2.RemoteProtocolError, aiohttp.ClientResponseError, ValueError)):
        kind = FaultKind.malformed  # no HTTP
    return Fault(kind, said, at_s=clock())


def _server_message(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error") if isinstance(body.get("error"), dict) else body
        if isinstance(inner, dict) and inner.get("message"):
            return one_line(str(inner["message"]))
    return one_line(error.response.text or error.message)
