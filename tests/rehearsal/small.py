"""A small SGLang with a small torch, in a folder: what it asks of cards and kernels is written in a test."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from suite import config
from suite.hosts import LocalHost
from suite.rehearsal.answers import Rehearsal
from suite.rehearsal.builds import RehearsedBuild
from suite.rehearsal.cards import Cards, parse
from suite.rehearsal.rehearse import rehearse
from suite.servers.runtimes import Runtime

BOX = parse("rtx-pro-6000x8")

_SERVER_ARGS = """
import argparse, dataclasses, importlib, importlib.metadata, importlib.util, logging, os, subprocess
import torch

logger = logging.getLogger(__name__)
{first}


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    tp_size: int = 1
    api_key: str | None = None
    speculative_algorithm: str | None = None
    found: object = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--tp-size", "--tp", type=int, default=1)
        parser.add_argument("--api-key")
        parser.add_argument("--speculative-algorithm")

    def resolve_once(self):
        if self.speculative_algorithm == "NEXTN":
            self.speculative_algorithm = "EAGLE"
        self.found = self.look()

    def look(self):
{body}


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, force=True)
    return ServerArgs(**vars(given))
"""

_TORCH = """
import sys, types

def _not_here(*arguments):
    raise AssertionError("Torch not compiled with CUDA enabled")

cuda = types.SimpleNamespace(
    is_available=lambda: False, device_count=lambda: 0, get_device_capability=_not_here, current_stream=lambda: cuda._lazy_init()
)
version = types.SimpleNamespace(cuda=None, hip=None)
__version__ = "2.13.0"
"""

_REQUIRES = (
    "flashinfer_python[cu13]==0.7.2",
    "sglang-kernel==0.4.10",
    "nvidia-ml-py",
    "tilelang>=0.1.12",
    "cuda-python>=12.9",
    "torch==2.14.1",
)


def install(folder: Path, body: str, requires: Sequence[str] = _REQUIRES, first: str = "") -> None:
    """Put both packages into ``folder``.

    ``body`` is what resolution does, and returns what it found; ``first`` is what happens at import.
    """
    package = folder / "sglang/srt"
    package.mkdir(parents=True, exist_ok=True)
    for name in (folder / "sglang", package):
        (name / "__init__.py").write_text("")
    # compiled files are told apart by second and size, and two of these differ in neither
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "server_args.py").write_text(
        _SERVER_ARGS.replace("{body}", indent(dedent(body), " " * 8)).replace("{first}", first)
    )
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch/__init__.py").write_text(_TORCH)
    info = folder / "sglang-0.5.99.dist-info"
    info.mkdir(exist_ok=True)
    lines = ["Metadata-Version: 2.1", "Name: sglang", "Version: 0.5.99"]
    (info / "METADATA").write_text(
        "\n".join([*lines, *(f"Requires-Dist: {need}" for need in requires)]) + "\n"
    )


def suite_of(folder: Path, **target: Any) -> config.Suite:
    """A suite with one target, this interpreter with the small packages, and three arms."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/config.json").write_text("{}")
    table = {
        "model": str(folder / "model"),
        "gpus": 8,
        "cards": "rtx-pro-6000x8",
        "env": {"PYTHONPATH": str(folder)},
        "launch": {"kind": "process", "python": sys.executable},
        "arms": {"off": {}, "on": {"flags": {"speculative-algorithm": "NEXTN"}}},
        **target,
    }
    data = {
        "default_target": "small",
        "builtin": False,
        "budgets": {"quick": {}},
        "targets": {"small": table},
    }
    return config.parse(data, folder / "suite.toml")


def rehearsed(
    folder: Path, body: str, cards: Cards | None = BOX, first: str = "", **target: Any
) -> Rehearsal:
    """All arms of a small SGLang whose resolution is ``body``."""
    install(folder, body, first=first)
    suite = suite_of(folder, **target)
    runtime = Runtime(suite.target(), LocalHost(), sys.executable, cwd=str(folder))
    return rehearse(folder, suite.target(), RehearsedBuild("small", runtime), cards)
