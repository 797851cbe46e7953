"""A baseline as its file holds it: each session's subject once, as a difference to that of the session before."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from suite.gate.records import Facts, Launch


class StoredSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recorded session in a file. The first has its whole ``subject``; later ones what was ``changed`` and is ``gone``.

    A file of version 1 has the whole subject in every session.
    """

    run_id: str
    started_at: str
    launches: list[Launch]
    subject: Facts | None = None
    changed: Facts = {}
    gone: list[str] = []
    generation: int = 1


def folded(subjects: list[Facts]) -> list[tuple[Facts | None, Facts, list[str]]]:
    """Subjects in the order of their sessions as (whole, changed, gone): whole for the first, differences for the rest."""
    if not subjects:
        return []
    later = (
        (
            None,
            {k: v for k, v in new.items() if k not in old or _differs(old[k], v)},
            sorted(old.keys() - new.keys()),
        )
        for old, new in pairwise(subjects)
    )
    return [(subjects[0], {}, []), *later]


def _differs(old: object, new: object) -> bool:
    """1, 1.0 and true are three different facts."""
    return type(old) is not type(new) or old != new


def unfolded(stored: list[StoredSession]) -> list[Facts]:
    """The whole subject of each session again."""
    subjects: list[Facts] = []
    for session in stored:
        before = subjects[-1] if subjects else {}
        kept = {name: value for name, value in before.items() if name not in session.gone}
        subjects.append(dict(session.subject if session.subject is not None else {**kept, **session.changed}))
    return subjects
