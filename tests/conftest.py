"""Makes the suite's own tests independent of how they were started."""

import signal


def pytest_configure() -> None:
    """A shell starts what runs in the background with Ctrl-C and hang-up ignored, and what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
