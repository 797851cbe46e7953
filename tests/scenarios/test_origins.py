"""Every way by which speculation can arrive is found and named."""

import pytest

from suite.sglang.flags import Flags
from suite.sglang.speculation_sources import asked_by, in_file, named


@pytest.mark.parametrize(
    ("flag", "asks"),
    [
        ("speculative-algorithm", True),
        ("speculative-algo", True),
        ("speculative-al", True),
        ("speculative-a", False),  # ambiguous: --speculative-accept-threshold-single and others begin so too
        ("speculative-num-steps", False),
        ("model-path", False),
    ],
)
def test_the_switch_in_every_length_that_argparse_takes(flag, asks):
    assert (asked_by(Flags({flag: "NEXTN"})) == flag) is asks


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("speculative-algorithm: NEXTN\n", "speculative-algorithm: NEXTN"),
        ("tp-size: 8\nspeculative_algorithm: EAGLE  # fast\n", "speculative_algorithm: EAGLE"),
        ("# speculative-algorithm: NEXTN\n", None),
        ("speculative-algorithm:\n", None),
        ("speculative-num-steps: 3\n", None),
    ],
)
def test_files(text, found):
    told = in_file(text)
    assert told == found if found is None else told.startswith(found)


def test_everything_is_named_with_its_place():
    told = named(
        Flags({"config": "site.yaml", "speculative-algo": "NEXTN"}),
        {"SGLANG_PLUGINS": "turbo", "HOME": "/home/x", "EXTRA_ARGS": "--speculative-algorithm EAGLE"},
        "speculative-algorithm: NEXTN",
        plugins=["sglang.srt.plugins: turbo of sglang-turbo"],
        sites=["server_args.py:10: self.speculative_algorithm = 'EAGLE'"],
    )
    assert told == [
        "the flag --speculative-algo NEXTN",
        "the file of --config site.yaml: 'speculative-algorithm: NEXTN'",
        "the variable SGLANG_PLUGINS=turbo",
        "the variable EXTRA_ARGS=--speculative-algorithm EAGLE",
        "the plugin sglang.srt.plugins: turbo of sglang-turbo",
        "the source, server_args.py:10: self.speculative_algorithm = 'EAGLE'",
    ]


def test_a_plain_server_has_no_origins():
    assert named(Flags({"model-path": "m"}), {}, None) == []
