"""What can go wrong while looking: one exception a cause, so that a caller can name it.

ProbeError
├── ServerProbeError       the server's answer
│   ├── ServerUnreachable  refused, no route, no such name, no answer in time
│   ├── ServerTLSError     the certificate or the protocol was not accepted
│   ├── ServerKeyRefused   401 or 403
│   ├── ServerNotReady     503: it is still starting, or it is shutting down
│   ├── UnreadableServer   something answered, but not an SGLang server
│   │   └── Gateway        it passes requests on to servers, and cannot tell what they run
│   └── MetricsDisabled    the server was started without --enable-metrics
├── CheckpointError        the directory cannot be read as a checkpoint at all
├── InstallationError      no SGLang there, or its source cannot be read
└── ProbeHostError         the host could not run the probe (no interpreter, connection lost, too slow)
"""

from __future__ import annotations


class ProbeError(Exception):
    """A probe could not say what is true; the text says why and what to do."""


class ServerProbeError(ProbeError):
    """The server at a URL could not be inspected."""


class ServerUnreachable(ServerProbeError):
    """Nothing answered: refused, no route, unknown name or no answer in time."""


class ServerTLSError(ServerProbeError):
    """TLS failed: the certificate is not trusted, or one side does not speak TLS."""


class ServerKeyRefused(ServerProbeError):
    """The server answered 401 or 403."""


class ServerNotReady(ServerProbeError):
    """The server answered 503."""


class UnreadableServer(ServerProbeError):
    """Something answered that is not an SGLang server, or not one this suite can read."""


class Gateway(UnreadableServer):
    """A router or proxy answered for the servers behind it: never an arm, whatever one of them says of itself."""


class MetricsDisabled(ServerProbeError):
    """The server has no /metrics."""


class CheckpointError(ProbeError):
    """The path is no checkpoint that can be read."""


class InstallationError(ProbeError):
    """There is no SGLang package to look at."""


class ProbeHostError(ProbeError):
    """The host could not run a probe."""
