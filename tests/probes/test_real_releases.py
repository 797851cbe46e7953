"""The source scan on published SGLang: where NEXTN is resolved in each release, and that nothing else activates it."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from suite.hosts import LocalHost
from suite.probes import installation
from tests.probes.fetch_wheels import RELEASES, wheel

RESOLVED_IN = {
    "0.5.9": "sglang/srt/server_args.py",
    "0.5.12": "sglang/srt/server_args.py",
    "0.5.16": "sglang/srt/arg_groups/speculative_hook.py",
    "0.5.20": "sglang/srt/arg_groups/speculative_hook.py",
    "0.5.23": "sglang/srt/arg_groups/speculative_hook.py",
}
"""Read by people in the packages, not by the scan."""

# An auto-detection as an upgrade, a fork or a wrapper could bring it, in a file where nobody looks for it.
AUTO_DETECTION = """
def fit_to_model(server_args, config):
    if getattr(config, "mtp_num_hidden_layers", 0):
        object.__setattr__(server_args, "speculative_algorithm", "EAGLE")
"""


def fetched(release: str) -> Path:
    path = wheel(release)
    if path is None:
        pytest.skip(f"SGLang {release} is not here: python tests/probes/fetch_wheels.py")
    return path


@pytest.mark.parametrize("release", RELEASES)
def test_nextn_is_resolved_in_one_file_and_nothing_else_activates_it(release: str) -> None:
    path = fetched(release)
    found = installation.scan(LocalHost(), path=str(path))
    assert found.installation.version == release
    assert found.activations == []
    assert not found.blind
    assert {site.file for site in found.resolutions} == {RESOLVED_IN[release]}
    to_eagle = [site for site in found.resolutions if "EAGLE" in site.text]
    source = zipfile.ZipFile(path).read(RESOLVED_IN[release]).decode().splitlines()
    for site in to_eagle:
        assert source[site.line - 1].strip() == site.text
        assert any("NEXTN" in line for line in source[site.line - 12 : site.line])
    assert to_eagle


def test_an_auto_detection_in_an_unexpected_file_is_found_with_its_line(tmp_path: Path) -> None:
    changed = Path(shutil.copy(fetched("0.5.12"), tmp_path))
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("sglang/srt/layers/rotary_fit.py", AUTO_DETECTION)
    found = installation.scan(LocalHost(), path=str(changed))
    assert [(site.file, site.line, site.kind) for site in found.activations] == [
        ("sglang/srt/layers/rotary_fit.py", 4, "__setattr__")
    ]
