"""Makes the suite's own tests independent of how they were started, and of one another's runs."""

import signal


def pytest_configure() -> None:
    _signals_as_in_a_terminal()


def pytest_runtest_setup() -> None:
    _signals_as_in_a_terminal()


def _signals_as_in_a_terminal() -> None:
    """A shell starts what runs in the background with Ctrl-C and hang-up ignored; a run in this process that was told to
    stop ignores them afterwards. Either is inherited by whatever a test starts.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
