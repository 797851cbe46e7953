"""The HTTP application: routes, authorisation, errors, and a line in the log for every answer."""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simulator import chat_api, completions_api, info_api, logs, native_api, profiling, wire
from simulator.delivery import EventStream, aborted_on_disconnect
from simulator.request_fields import RequestError
from simulator.service import Generation, Service

_OPEN_PATHS = ("/health", "/health_generate", "/metrics")
_FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)
_PROXY_PAGE = "<html><head><title>Welcome</title></head><body><h1>Sign in to continue</h1></body></html>"
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}

Endpoint = Callable[[Request], Awaitable[Response]]


class GenerationApi(Protocol):
    """A module that answers one generating endpoint."""

    def begin(self, service: Service, body: dict[str, Any]) -> Generation: ...
    def failure(self, message: str) -> dict[str, Any]: ...
    async def whole(self, service: Service, body: dict[str, Any], generation: Generation) -> Any: ...
    def events(
        self, service: Service, body: dict[str, Any], generation: Generation
    ) -> AsyncIterator[bytes]: ...


def build(service: Service) -> ASGIApp:
    """The application of one server."""
    generating: dict[str, GenerationApi] = {
        "/v1/chat/completions": chat_api,
        "/v1/completions": completions_api,
        "/generate": native_api,
    }
    routes = [Route(path, _generate(service, api), methods=["POST"]) for path, api in generating.items()]
    routes += [
        Route("/health", _health(service)),
        Route("/health_generate", _health(service)),
        Route("/model_info", _info(service, info_api.model_info)),
        Route("/get_model_info", _info(service, info_api.model_info, "/model_info")),
        Route("/server_info", _info(service, info_api.server_info)),
        Route("/get_server_info", _info(service, info_api.server_info, "/server_info")),
        Route("/v1/models", _info(service, info_api.models)),
        Route("/v1/loads", _info(service, info_api.loads)),
        Route("/flush_cache", _flush(service), methods=["GET", "POST"]),
        Route("/start_profile", _start_profile(service), methods=["GET", "POST"]),
        Route("/stop_profile", _stop_profile(service), methods=["GET", "POST"]),
        Route("/abort_request", _abort(service), methods=["POST"]),
    ]
    if service.resolved.settings["enable_metrics"]:
        routes.append(Route("/metrics", _metrics(service)))
    return _Front(Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_found}), service)


class _Front:
    """Checks the API key, counts and logs answers."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"])
            await send(message)

        if not self._allowed(scope):
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, note)
            return
        await self._app(scope, receive, note)

    def _allowed(self, scope: Scope) -> bool:
        key = self._service.resolved.settings["api_key"]
        if not key or scope["path"] in _OPEN_PATHS:
            return True
        header = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(header, b"Bearer " + str(key).encode())

    def _note(self, scope: Scope, status: int) -> None:
        host, port = scope.get("client") or ("-", 0)
        logs.write(
            f'INFO:     {host}:{port} - "{scope["method"]} {scope["path"]} HTTP/1.1" {status} {_REASONS.get(status, "")}'
        )
        self._service.telemetry.http[scope["method"], scope["path"], status] += 1


def _generate(service: Service, api: GenerationApi) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if service.behaviour.html:
            return Response(_PROXY_PAGE, media_type="text/html")
        try:
            body = json.loads(await request.body())
            if not isinstance(body, dict):
                raise RequestError("The request body must be a JSON object.")
            generation = api.begin(service, body)
        except (RequestError, ValueError, TypeError) as error:
            return JSONResponse(api.failure(str(error)), 400)
        if body.get("stream"):
            return _Streaming(EventStream(service, generation, api.events(service, body, generation)))
        async with aborted_on_disconnect(request.receive, generation):
            answer = await api.whole(service, body, generation)
        return Response(wire.dumps(answer), media_type="application/json")

    return endpoint


class _Streaming(Response):
    """Lets an endpoint return a raw ASGI application."""

    def __init__(self, stream: EventStream) -> None:
        self.background = None
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._stream(scope, receive, send)


def _health(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(status_code=200 if service.ready else 503)

    return endpoint


def _info(service: Service, describe: Callable[[Service], dict[str, Any]], instead: str = "") -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if instead:
            logs.write(
                f"Endpoint '{request.url.path}' is deprecated and will be removed in a future version. "
                f"Please use '{instead}' instead."
            )
        return Response(wire.dumps(describe(service)), media_type="application/json")

    return endpoint


def _flush(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        scheduler = service.scheduler
        if scheduler.busy:
            logs.scheduler(
                "Cache not flushed because there are pending requests. "
                f"#queue-req: {len(scheduler.waiting)}, #running-req: {len(scheduler.running)}"
            )
            return PlainTextResponse("Flush cache failed.\n", 400)
        scheduler.cache.clear()
        service.telemetry.flushed()
        logs.scheduler("Cache flushed successfully!")
        return Response(_FLUSHED)

    return endpoint


def _start_profile(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        fields = json.loads(await request.body() or b"{}")
        try:
            service.profiler.start(fields if isinstance(fields, dict) else {})
        except profiling.NotProfiling as error:
            return PlainTextResponse(str(error), 500)
        return PlainTextResponse(profiling.STARTED)

    return endpoint


def _stop_profile(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            service.profiler.stop()
        except profiling.NotProfiling as error:
            return PlainTextResponse(str(error), 500)
        return PlainTextResponse(profiling.STOPPED)

    return endpoint


def _abort(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        body = json.loads(await request.body() or b"{}")
        rid, everything = body.get("rid", ""), bool(body.get("abort_all"))
        service.engine.abort(lambda s: everything or (bool(rid) and s.request_id.startswith(rid)))
        return Response(status_code=200)

    return endpoint


def _metrics(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        from simulator import exposition

        return PlainTextResponse(
            exposition.render(service), headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    return endpoint


async def _not_found(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return JSONResponse({"detail": "Not Found" if status == 404 else "Method Not Allowed"}, status)
