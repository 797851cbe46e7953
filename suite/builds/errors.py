"""What can be wrong with a build before anything is launched; each text says what to do next."""

from __future__ import annotations

from suite.sglang.errors import ProbeError


class BuildError(ProbeError):
    """There is no such build, or it cannot be had here."""


class ReleaseError(BuildError):
    """A release could not be installed, or the index not asked."""
