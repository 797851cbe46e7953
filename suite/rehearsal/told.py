"""A rehearsal as lines for people."""

from __future__ import annotations

from suite.rehearsal.answers import Answer, Rehearsal
from suite.rehearsal.preview import what_mtp_changes
from suite.sglang import config_diff
from suite.sglang.flags import history_of

_RIGHT = {"refused": "problem", "undecided": "open", "failed": "open"}


def told(rehearsal: Rehearsal, heading: bool = True) -> list[str]:
    """What a build answers: one line for the arms that come out alike, one for each that does not do what it means."""
    lines = _heading(rehearsal) if heading else []
    lines += ["", f"SGLang {rehearsal.build}{_with(rehearsal)}"]
    lines += [f"  {status:8} {said}" for status, said in outcomes(rehearsal)]
    changes = what_mtp_changes(rehearsal)
    if rehearsal.unasked and rehearsal.arms[rehearsal.unasked[0]].word == "resolved":
        also = config_diff.told(changes) or "nothing"
        lines.append(f"  MTP changes besides ({rehearsal.unasked[0]} with and without its flags): {also}")
    if rehearsal.imported:
        asked = "; ".join(map(str, rehearsal.imported))
        lines.append(f"  looked up at import, and not here: {asked}")
    return lines


def outcomes(rehearsal: Rehearsal) -> list[tuple[str, str]]:
    """(``ok``, ``problem`` or ``open``; a sentence) for each distinct answer, problems first."""
    alike: dict[tuple[str, str], list[str]] = {}
    for arm, answer in rehearsal.arms.items():
        alike.setdefault(_outcome(answer, rehearsal.build), []).append(arm)
    order = ("problem", "open", "ok")
    found = sorted(alike.items(), key=lambda item: order.index(item[0][0]))
    return [(status, f"{said}: {', '.join(arms)}") for (status, said), arms in found]


def _outcome(answer: Answer, build: str) -> tuple[str, str]:
    if answer.word != "resolved":
        words = answer.reason.split()
        known = [
            said
            for word in words
            if word.startswith("--") and (said := history_of(word.strip(".,'\"="), build))
        ]
        return _RIGHT[answer.word], f"{answer}{f' ({known[0]})' if known else ''}"
    said = str(answer)
    if not answer.as_meant:
        return "problem", f"{said}, although it was {'' if answer.asks else 'not '}asked for"
    return ("open" if answer.open else "ok"), said


def _heading(rehearsal: Rehearsal) -> list[str]:
    cards = f"pretended: {rehearsal.cards}" if rehearsal.cards else "no cards pretended: the machine as it is"
    lines = [f"target {rehearsal.target}, {cards}; resolution only, nothing is loaded or started"]
    if rehearsal.checkpoint:
        lines.append(f"config files: {rehearsal.checkpoint}")
    return lines


def _with(rehearsal: Rehearsal) -> str:
    torch = rehearsal.versions.get("torch")
    if not torch:
        return ""
    asked = rehearsal.torch_required
    other = f", although it asks for {asked}" if asked and torch.split("+")[0] not in asked else ""
    return f", with torch {torch}{other}"
