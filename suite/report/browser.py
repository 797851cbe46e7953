"""A headless Chromium, where there is one: looks at a report as a person would, clicks, and takes screenshots of it.

Speaks the DevTools protocol over a socket of this machine; the browser opens local files only, and reaches no network.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)
START_S, ANSWER_S, WAIT_S = 120.0, 120.0, 120.0
"""Limits and no waiting times: on a machine that has other things to do a page of megabytes takes its time."""

ERROR_CHARS = 2000

_MIDDLE = """(element => {
    element.scrollIntoView({ block: 'center', behavior: 'instant' });
    const box = element.getBoundingClientRect(), inside = element.ownerDocument;
    const at = [box.left + box.width / 2, box.top + box.height / 2];
    if (!element.contains(inside.elementFromPoint(...at))) return null;
    const frame = inside.defaultView.frameElement;
    if (!frame) return at;
    const outer = frame.getBoundingClientRect();
    const there = [at[0] + outer.left, at[1] + outer.top];
    return frame == document.elementFromPoint(...there) && there;
})(%s)"""


class BrowserFailed(Exception):
    """Chromium did not start, or did not do as it was told; the text says what."""


class CommandRefused(BrowserFailed):
    """A command that could not be carried out, as of a page that has just given way to another."""


def installed() -> str | None:
    """Where Chromium is; None where it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def opened(executable: str) -> Iterator[Browser]:
    """A browser with a profile of its own, ended with the block.

    Raises:
        BrowserFailed: it did not start.
    """
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with asyncio.Runner() as runner:
                browser = Browser(runner, _port(process, Path(profile)))
                try:
                    yield browser
                finally:
                    browser.close()
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port(process: subprocess.Popen[bytes], profile: Path) -> int:
    """The port that it chose, which it writes into its profile."""
    told, deadline = profile / "DevToolsActivePort", time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise BrowserFailed(f"Chromium ended with {process.returncode} before it was ready")
        if told.exists() and (line := told.read_text().partition("\n")[0]).isdigit():
            return int(line)
        time.sleep(0.05)
    raise BrowserFailed(f"Chromium was not ready after {START_S:.0f} s")


class Browser:
    """One page, which remembers nothing of the last.

    requested: the addresses that it asked for, those of the report's own data left out; errors: what went wrong in it, as
    its console says.
    """

    def __init__(self, runner: asyncio.Runner, port: int) -> None:
        self._runner = runner
        self._count = 0
        self.requested: list[str] = []
        self.errors: list[str] = []
        runner.run(self._connect(port))

    async def _connect(self, port: int) -> None:
        self._session = aiohttp.ClientSession(trust_env=False)
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = [page for page in await answer.json(content_type=None) if page["type"] == "page"]
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Runtime", "Network", "Inspector", "Log"):
            await self._tell(f"{domain}.enable")
        # what one page remembers of the last, such as which sections were open
        forget = "try { localStorage.clear() } catch (error) {}"
        await self._tell("Page.addScriptToEvaluateOnNewDocument", source=forget)

    def close(self) -> None:
        """Let go of the page."""
        self._runner.run(self._session.close())

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the DevTools protocol; its answer.

        Raises:
            BrowserFailed: it was refused, or not answered in time.
        """
        return self._runner.run(self._tell(method, **parameters))

    async def _tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        try:
            async with asyncio.timeout(ANSWER_S):
                while (message := await self._heard(method)).get("id") != self._count:
                    self._note(message)
        except TimeoutError:
            raise BrowserFailed(f"{method}: no answer after {ANSWER_S:.0f} s") from None
        if "error" in message:
            raise CommandRefused(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    async def _heard(self, method: str) -> dict[str, Any]:
        message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise BrowserFailed(f"{method}: Chromium has hung up")
        found: dict[str, Any] = message.json()
        return found

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Inspector.targetCrashed":
            raise BrowserFailed("the page crashed")
        if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.errors.append(str(event["params"])[:ERROR_CHARS])
        if event.get("method") == "Network.requestWillBeSent":
            address = event["params"]["request"]["url"]
            if not address.startswith(("data:", "blob:", "about:")):
                self.requested.append(address)

    def size(self, width: int, height: int) -> None:
        """Of the window, in pixels."""
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def dark(self, on: bool) -> None:
        """Whether the person prefers dark pages."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.tell("Emulation.setEmulatedMedia", features=features)

    def open(self, page: Path | str, fragment: str = "") -> None:
        """Open a local file, or an address of this machine, anew; and wait until it is loaded; what its scripts build comes later, see :meth:`wait`.

        Raises:
            BrowserFailed: there is no such file, or it was not loaded in time.
        """
        address = (page if isinstance(page, str) else page.resolve().as_uri()) + fragment
        self.tell("Page.navigate", url="about:blank")
        if told := self.tell("Page.navigate", url=address).get("errorText"):
            raise BrowserFailed(f"{address}: {told}")
        self.wait("location.href != 'about:blank' && document.readyState == 'complete'")

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserFailed(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = WAIT_S) -> Any:
        """The value of an expression as soon as it is one that counts as true.

        Raises:
            BrowserFailed: it did not become true in time; the text says what the page shows instead.
        """
        deadline = time.monotonic() + seconds
        # what a page is being built of is not there at times
        careful = f"(() => {{ try {{ return {script} }} catch (error) {{ return null }} }})()"
        while True:
            with suppress(CommandRefused):  # one page has just given way to another
                if value := self.ask(careful):
                    return value
            if time.monotonic() > deadline:
                shown = self.ask("`${location.href.slice(-60)}: ${document.body?.innerText.slice(0, 300)}`")
                told = "; ".join(self.errors[-1:])
                raise BrowserFailed(
                    f"not true after {seconds:.0f} s: {script}; the page shows {shown}; {told}"
                )
            time.sleep(0.1)

    def click(self, element: str) -> None:
        """Click where a JavaScript expression's element is, as a person with a mouse would: it must be there to be seen.

        Raises:
            BrowserFailed: it did not come, is not to be seen, or something else lies over its middle.
        """
        x, y = self.wait(_MIDDLE % element)
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is to be seen, or of the whole page."""
        answer = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
