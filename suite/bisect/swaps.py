"""The bad build with one package of the good one at a time: which dependency brought the loss, if it was one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from packaging.utils import canonicalize_name

from suite.bisect.journal import Search
from suite.bisect.search import Step, is_good
from suite.bisect.told import change
from suite.builds import Build, BuildError

FOR_SPEED = re.compile(
    r"torch(ao)?|triton|transformers|xgrammar|sgl-kernel|sglang-kernel|flashinfer.*|flash-attn.*|cuda-python|tilelang"
    r"|nvidia-(cudnn|nccl|cublas|cutlass).*|deep-?gemm.*|quack-kernels"
)
"""Packages that decide how fast SGLang is; only these are exchanged unless others are named."""


def row(good: str, bad: str, old: Build, new: Build, named: Sequence[str]) -> list[str]:
    """The good build, the bad one with one package exchanged at a time, the bad one.

    named: packages (`torch`), or with versions of their own (`torch==2.9.1`); empty: all that differ and decide speed.
    Raises BuildError where nothing is known of what is installed beside either, or nothing differs.
    """
    before, after = _versions(old.lock), _versions(new.lock)
    pins = [_pin(text, before) for text in named] if named else _differing(good, bad, before, after)
    return [good, *(f"{bad},{pin}" for pin in pins), bad]


def _pin(text: str, before: Mapping[str, str]) -> str:
    if re.search(r"[=<>@]", text):
        return text
    version = before.get(canonicalize_name(text))
    if version is None:
        raise BuildError(f"{text}: not known in which version the good build has it; say so: {text}==VERSION")
    return f"{text}=={version}"


def _differing(good: str, bad: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    if not before or not after:
        raise BuildError(
            f"what is installed beside {good} or {bad} is not known, because this suite did not install it; name the "
            "packages: --swap torch==2.9.1,triton==3.5.0"
        )
    shared = sorted(before.keys() & after.keys())
    found = [
        f"{name}=={before[name]}"
        for name in shared
        if before[name] != after[name] and FOR_SPEED.fullmatch(name)
    ]
    if not found:
        raise BuildError(
            f"{good} and {bad} have the same packages that decide speed: the loss is SGLang's own"
        )
    return found


def _versions(lock: Sequence[str]) -> dict[str, str]:
    pairs = (pin.partition("==")[::2] for pin in lock)
    return {canonicalize_name(name): version for name, version in pairs if version}


def outcome_lines(search: Search, words: Sequence[Step]) -> list[str]:
    """For each exchanged package whether the loss went away with it, those that explain it first."""
    builds, *_, end = search.task.builds, words[-1]
    if end.word != "no-go":
        return [f"nothing to exchange for: {builds[-1]} against {builds[0]}: {end.word}, {change(end)}"]
    lines = [f"{builds[-1]} against {builds[0]}: {change(end)}"]
    gone = []
    for step in words[:-1]:
        package = builds[step.candidate].removeprefix(f"{builds[-1]},")
        there = [s for s in search.steps if (s.reference, s.candidate) == (0, step.candidate)]
        if is_good(there, end):
            gone.append(package)
            lines.append(f"with {package} the loss is gone: {change(step)}")
        elif step.word == "cannot start":
            lines.append(f"with {package} it cannot start: {step.why}")
        elif step.word == "no-go":
            lines.append(f"with {package} the loss stays: {change(step)}")
        else:
            lines.append(f"with {package} it cannot be decided: {change(step)}")
    said = f"{', '.join(gone)} brought the loss" if gone else "no single package brought the loss"
    return [said, *lines]
