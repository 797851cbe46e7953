"""What can go wrong between here and a host, each with what to do about it.

HostError
├── HostUnreachable     no connection: address, port, network
├── UnknownHostKey      the host's key is not in known_hosts
├── ChangedHostKey      the host's key is not the one in known_hosts
├── LoginRefused        no key of ours is accepted
├── ConnectionLost      was there, is gone
├── CommandTimeout      a command did not end in time
├── CommandFailed       a command ended with another status than 0
└── NoSuchFile          a file on the host is not there, or may not be read
"""


class HostError(Exception):
    """Infrastructure, not a measurement: the host could not be worked with."""


class HostUnreachable(HostError):
    """No connection to the host."""


class UnknownHostKey(HostError):
    """The host showed a key that ``known_hosts`` does not know."""


class ChangedHostKey(HostError):
    """The host showed another key than ``known_hosts`` has for it."""


class LoginRefused(HostError):
    """The host accepts none of the keys that were offered."""


class ConnectionLost(HostError):
    """The connection to the host broke."""


class CommandTimeout(HostError):
    """A command on the host did not end in time; it was ended."""


class CommandFailed(HostError):
    """A command on the host ended with another status than 0."""


class NoSuchFile(HostError):
    """A file on the host is not there, or may not be read or written."""
