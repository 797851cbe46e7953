"""Names of questions in plain words; sorted as text, smaller sizes come first."""

from __future__ import annotations

from suite.report import words


def test_sizes_are_as_wide_as_the_widest_of_their_name() -> None:
    among = ["d[c8]", "d[c32]", "d[c1]", "other[c1024]", "p[131072]", "p[1024]", "p[16384]"]
    assert words.aligned("d[c32]", among) == "d, 32 clients"
    assert words.aligned("d[c8]", among) == "d, \u20078 clients"
    assert words.aligned("p[1024]", among) == "p, \u2007\u20071,024 tokens"
    assert words.aligned("log_is_clean", among) == "log is clean"
