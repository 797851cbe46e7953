"""Has a checkpoint MTP heads: what its configuration declares against the tensors its files hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from suite.hosts import Host
from suite.probes.installation import Python
from suite.probes.remote import run_script
from suite.sglang.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the files of a checkpoint say; no tensor was loaded.

    ``declared`` are MTP layers by the key of config.json that declares them (``text_config.mtp_num_hidden_layers``),
    ``mtp_dtypes`` counts the MTP tensors by their type. ``problems`` are sentences; empty when all is well.
    """

    path: str
    architectures: tuple[str, ...]
    declared: Mapping[str, int]
    tensors: int
    mtp_tensors: int
    mtp_layers: int
    mtp_dtypes: Mapping[str, int]
    quantization: str | None
    shards: int
    missing: tuple[str, ...]
    broken: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def declared_layers(self) -> int:
        """How many MTP layers config.json declares, by whichever key says most."""
        return max(self.declared.values(), default=0)

    @property
    def has_mtp(self) -> bool:
        """Are MTP heads both declared and held by the files?"""
        return self.declared_layers > 0 and self.mtp_tensors > 0

    @property
    def agrees(self) -> bool:
        """Do declaration and tensors agree that there are, or are not, MTP heads?"""
        return (self.declared_layers > 0) == (self.mtp_tensors > 0)

    def __str__(self) -> str:
        if not self.declared_layers and not self.mtp_tensors:
            return "no MTP heads, declared or held"
        keys = ", ".join(f"{key} {count}" for key, count in self.declared.items()) or "nothing"
        types = ", ".join(f"{count} {dtype}" for dtype, count in sorted(self.mtp_dtypes.items()))
        return f"config.json declares {keys}; {self.mtp_tensors} MTP tensors" + (
            f" ({types})" if types else ""
        )


def read(
    host: Host,
    path: str,
    python: Python = "python3",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Checkpoint:
    """Look at the checkpoint in directory ``path`` on ``host``, or of that name in its Hugging Face cache.

    Raises:
        CheckpointError: there is no such directory or model.
        ProbeHostError: the host has no such interpreter, or took too long.
    """
    found = run_script(host, python, ["read_checkpoint"], [path], timeout_s=120.0, env=env, cwd=cwd)
    if "problem" in found:
        raise CheckpointError(f"{host.name}: {found['problem']}")
    known = Checkpoint(
        path=found["path"],
        architectures=tuple(found.get("architectures", ())),
        declared=found.get("declared", {}),
        tensors=found.get("tensors", 0),
        mtp_tensors=found.get("mtp_tensors", 0),
        mtp_layers=found.get("mtp_layers", 0),
        mtp_dtypes=found.get("mtp_dtypes", {}),
        quantization=found.get("quantization"),
        shards=found.get("shards", 0),
        missing=tuple(found.get("missing", ())),
        broken=found.get("broken", {}),
        problems=tuple(found["problems"]),
    )
    return _with_problems(known)


def _with_problems(known: Checkpoint) -> Checkpoint:
    """``known`` with what follows from it said in sentences."""
    said = list(known.problems)
    if known.missing:
        shown = ", ".join(known.missing[:4]) + (" ..." if len(known.missing) > 4 else "")
        said.append(f"{len(known.missing)} of {known.shards} shards are missing: {shown}")
    said += [f"{shard}: {fault}" for shard, fault in known.broken.items()]
    if known.declared_layers and not known.mtp_tensors:
        said.append(
            f"config.json declares {known.declared_layers} MTP layers, but no file holds an MTP tensor: "
            "the heads were stripped, and NEXTN would start without a draft or with a random one"
        )
    if known.mtp_tensors and not known.declared_layers:
        said.append(
            f"the files hold {known.mtp_tensors} MTP tensors that config.json does not declare: they stay unused"
        )
    if known.has_mtp and known.mtp_layers < known.declared_layers:
        said.append(
            f"config.json declares {known.declared_layers} MTP layers, the tensors are of {known.mtp_layers}"
        )
    return replace(known, problems=tuple(said))
