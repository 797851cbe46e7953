"""Has a checkpoint MTP heads: what its configuration declares against the tensors its files hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from suite.hosts import Host
from suite.probes.installation import Python
from suite.probes.remote import run_script
from suite.sglang.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the files of a checkpoint say; no tensor was loaded.

    ``declared`` are MTP layers by the key of config.json that declares them (``text_config.mtp_num_hidden_layers``),
    ``assumed`` those that SGLang takes by itself where no key counts any. Tensors are those of the files that SGLang
    would load: what the index names, and what it adds by itself (``added``); ``outside`` counts MTP tensors in other
    files. ``mtp_dtypes`` counts the MTP tensors by their type. ``problems`` are sentences; empty when all is well;
    ``doubts`` are about heads of which nobody can say from the files whether SGLang would use them.
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
    assumed: int = 0
    added: tuple[str, ...] = ()
    outside: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @property
    def declared_layers(self) -> int:
        """How many MTP layers config.json declares, by whichever key says most, or else those that SGLang takes."""
        return max(self.declared.values(), default=0) or (self.assumed if self.mtp_tensors else 0)

    @property
    def has_mtp(self) -> bool:
        """Are MTP heads both declared and held by the files?"""
        return self.declared_layers > 0 and self.mtp_tensors > 0

    @property
    def agrees(self) -> bool:
        """Do declaration and tensors agree that there are, or are not, MTP heads, beyond doubt?"""
        return not self.doubts and (self.declared_layers > 0) == (self.mtp_tensors > 0)

    def __str__(self) -> str:
        if not self.declared_layers and not self.mtp_tensors:
            return "; ".join(self.doubts) or "no MTP heads, declared or held"
        keys = ", ".join(f"{key} {count}" for key, count in self.declared.items()) or "nothing"
        if self.declared_layers > max(self.declared.values(), default=0):
            keys += f", SGLang takes {self.assumed} for {self.architectures[0]}"
        more = [f"in {name}, which the index leaves out and SGLang adds" for name in self.added]
        more += self.doubts
        types = ", ".join(f"{count} {dtype}" for dtype, count in sorted(self.mtp_dtypes.items()))
        held = f"config.json declares {keys}; {self.mtp_tensors} MTP tensors" + (
            f" ({types})" if types else ""
        )
        return "; ".join([held, *more])


def read(
    host: Host,
    path: str,
    python: Python = "python3",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    revision: str | None = None,
) -> Checkpoint:
    """Look at the checkpoint in directory ``path`` on ``host``, or of that name in its Hugging Face cache.

    ``revision`` is a branch, tag or commit there, as ``--revision`` takes it.

    Raises:
        CheckpointError: there is no such directory or model.
        ProbeHostError: the host has no such interpreter, or took too long.
    """
    found = run_script(
        host, python, ["read_checkpoint"], [path, revision or ""], timeout_s=120.0, env=env, cwd=cwd
    )
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
        assumed=found.get("assumed", 0),
        added=tuple(found.get("added", ())),
        outside=found.get("outside", {}),
    )
    return _with_problems(known)


def _with_problems(known: Checkpoint) -> Checkpoint:
    """``known`` with what follows from it said in sentences."""
    said = list(known.problems)
    if known.missing:
        shown = ", ".join(known.missing[:4]) + (" ..." if len(known.missing) > 4 else "")
        said.append(f"{len(known.missing)} of {known.shards} shards are missing: {shown}")
    said += [f"{shard}: {fault}" for shard, fault in known.broken.items()]
    if known.declared_layers and not known.mtp_tensors and not known.outside:
        said.append(
            f"config.json declares {known.declared_layers} MTP layers, but no file holds an MTP tensor: "
            "the heads were stripped, and NEXTN would start without a draft or with a random one"
        )
    if known.has_mtp and known.mtp_layers < known.declared_layers:
        said.append(
            f"config.json declares {known.declared_layers} MTP layers, the tensors are of {known.mtp_layers}"
        )
    return replace(known, problems=tuple(said), doubts=tuple(_doubts(known)))


def _doubts(known: Checkpoint) -> Iterator[str]:
    """Heads that are there, and of which the files do not say whether SGLang would use them."""
    family = known.architectures[0] if known.architectures else "this family"
    if known.mtp_tensors and not known.declared_layers:
        yield (
            f"the files hold {known.mtp_tensors} MTP tensors and config.json counts no MTP layers: whether SGLang "
            f"takes one by itself for {family} is not known"
        )
    for name, count in known.outside.items():
        yield (
            f"{count} MTP tensors are in {name}, which the index does not name: SGLang 0.5.23 would leave that file "
            f"out for {family}; whether yours does is not known"
        )
