"""The picture of the documentation is drawn from the gate's own comparison, and is the one in the repository."""

from pathlib import Path

import numpy as np
import pytest

from proofs.calibrate.picture import builds, changes, main


def test_few_prompts_make_builds_look_different_and_many_do_not() -> None:
    few, many = changes(builds(16)), changes(builds(256))
    assert np.abs(few[0]).max() > 2.5
    assert np.abs(many[0]).max() < 2.0
    assert few[1].mean() > 3 * many[1].mean()


def test_the_drawing_is_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "two.svg"):
        assert main(["--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
