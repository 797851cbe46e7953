"""How a server's last words and exit code become a named failure: a table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.servers.errors import Evidence, ExitedEarly, ServerError


def diagnose(news: Mapping[str, Any], lines: list[str], evidence: Evidence) -> ServerError:
    """The failure that the server's end shows."""
    code = news["code"]
    return ExitedEarly(f"the server ended with exit status {code} before it was ready", "", evidence)
