"""The container image that a server runs in: what its name stands for today, and what its maker wrote on it."""

from __future__ import annotations

import json
import re
from typing import Any

from suite.hosts import Host, HostError
from suite.sglang.errors import ProbeHostError

_TELLING = re.compile(r"SGLANG_|BUILD_COMMIT|IMAGE_TAG|image\.(revision|version|created)$", re.IGNORECASE)
"""Labels that say which build an image holds."""


def inspect(host: Host, engine: str, image: str) -> dict[str, str]:
    """Facts of an image by name: ``image`` as it was asked for, ``image_digest``, ``image_id`` and ``label.NAME``.

    A tag can be moved to another image; the digest is what the registry serves it by, the id what lies on the host.

    Raises:
        ProbeHostError: the engine does not know the image, or gave no answer.
    """
    try:
        done = host.run([engine, "image", "inspect", image])
    except HostError as error:
        raise ProbeHostError(f"{engine} on {host.name}: {error}") from None
    if done.code:
        said = (done.stderr or done.stdout).strip()[-200:]
        raise ProbeHostError(f"{engine} on {host.name} has no image {image}: {said}")
    try:
        found = json.loads(done.stdout)[0]
        return {"image": image, **_facts(found)}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ProbeHostError(
            f"{engine} on {host.name}: its answer about image {image} is not an image description"
        ) from None


def _facts(found: dict[str, Any]) -> dict[str, str]:
    digests = [str(digest).rpartition("@")[2] for digest in found.get("RepoDigests") or []]
    labels = (found.get("Config") or {}).get("Labels") or found.get("Labels") or {}
    told = {"image_id": str(found["Id"])[:23]}
    if digests:
        told["image_digest"] = sorted(digests)[0]
    return told | {f"label.{name}": str(value) for name, value in labels.items() if _TELLING.search(name)}
