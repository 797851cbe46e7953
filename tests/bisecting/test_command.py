"""The command on modelled builds: sessions played by a stand-in that writes verdicts as the gate does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite import builds
from suite.__main__ import main
from suite.bisect import journal
from suite.bisect.search import Ask
from suite.bisect.sessions import Sessions
from suite.builds import Build
from suite.gate.runs import VERDICTS_FORMAT, VERSION

NAMES = [f"b{number}" for number in range(6)]
TOML = """
default_target = "t"
[targets.t]
model = "m"
[targets.t.launch]
kind = "process"
python = "python"
""" + "".join(f"[targets.t.builds.{name}]\n" for name in NAMES)
LOST = 0.04
NOTHING = {"label": "output tokens/s", "unit": "tokens/s", "value": None}
Told = dict[tuple[int, int], list[str]]


class Played:
    """Sessions of builds of which the fourth lost 4 %; `words` says otherwise for a pair, session by session."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.words: Told = {}
        self.stop_after = 99

    def __call__(self, sessions: Sessions, ask: Ask, place: Path) -> int:
        if len(self.asked) == self.stop_after:
            raise KeyboardInterrupt
        pair = (ask.reference, ask.candidate)
        self.asked.append(pair)
        lost = ask.reference < 3 <= ask.candidate
        told = self.words.get(pair, [])
        word = told[ask.attempt] if ask.attempt < len(told) else "regression" if lost else "pass"
        if word == "usage":
            (place / "pytest.log").write_text("...\nERROR: b2: it cannot be had\n")
            return 4
        if word == "disk":
            (place / "pytest.log").write_text("no space left on device\n")
            return 9
        write(place / "run-1", word, LOST if lost else 0.001)
        return {"regression": 1, "pass": 0}.get(word, 8)


def write(run: Path, word: str, loss: float) -> None:
    """verdicts.json of a session: two arms, of which mtp-on lost; `launch`: the candidate's server does not start."""
    verdicts = [
        {
            "question": "decode[1]", "arm": arm, "metric": "output_tokens_per_s",
            "word": word if arm == "mtp-on" else "pass", "headline": f"{arm}: {word}", "reason": "",
            "estimate": {"label": "output tokens/s", "unit": "tokens/s", "value": 1.0, "change": -lost,
                         "ci_low": -lost - 0.008, "ci_high": -lost + 0.008},
            "margin": 0.02,
        }
        for arm, lost in (("mtp-off", 0.0), ("mtp-on", loss))
    ]  # fmt: skip
    causes = []
    if word == "launch":  # as the gate writes it: the figures were asked for and not measured
        causes = [{"kind": "promise", "text": "mtp-on does not start: exit 2"}]
        verdicts = [
            {**v, "word": "invalid", "reason": "not measured: does not start", "estimate": NOTHING}
            for v in verdicts
        ]
    run.mkdir(parents=True, exist_ok=True)
    (run / "verdicts.json").write_text(
        json.dumps(
            {
                "format": VERDICTS_FORMAT, "version": VERSION, "run_id": "r", "started_at": "2026-12-01T00:00:00Z",
                "target": "t", "worst": word, "verdicts": verdicts, "informational": [], "changes": {}, "undecided": [],
                "next_launches": None, "notes": [], "causes": causes,
            }
        )
    )  # fmt: skip


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.chdir(tmp_path)
    Path("suite.toml").write_text(TOML)
    stand_in = Played()
    monkeypatch.setattr(Sessions, "_play", lambda sessions, ask, place: stand_in(sessions, ask, place))
    return stand_in


def bisect(*options: str) -> int:
    return main(["bisect", "--good", "b0", "--bad", "b5", *options])


def folder() -> Path:
    return next(Path("results").glob("bisect-*"))


def test_the_build_that_lost_is_named_with_its_loss(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect() == 0
    said = capsys.readouterr().out
    assert "b3 brought the loss of output_tokens_per_s of decode[1], mtp-on" in said
    assert "against b2, the build before it: +4.0 % worse (+3.2..+4.8)" in said
    assert "python -m suite why --reference b2 --candidate b3" in said
    assert "b2 against b0: go, +0.1 % worse" in said, "each session is told"
    assert played.asked == [(0, 5), (0, 2), (0, 3), (2, 3)]


def test_an_interrupted_search_goes_on(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    played.stop_after = 2
    assert bisect() == 130
    assert len(journal.load(folder()).steps) == 2
    played.stop_after = 99
    assert main(["bisect", "--resume", str(folder())]) == 0
    assert "b3 brought the loss" in capsys.readouterr().out
    assert played.asked == [(0, 5), (0, 2), (0, 3), (2, 3)], "what was measured is not measured again"


@pytest.mark.parametrize(
    ("word", "said"), [("launch", "does not start: exit 2"), ("usage", "it cannot be had")]
)
def test_a_build_that_cannot_start_is_passed_over_and_said(
    played: Played, capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    played.words[0, 2] = [word]
    assert bisect() == 8
    told = capsys.readouterr().out
    assert (
        f"b2 against b0: cannot start, passed over: {'ERROR: b2: ' if word == 'usage' else 'mtp-on '}{said}"
        in told
    )
    assert "came with one of 2 builds: b2, b3" in told


def test_a_session_that_does_not_tell_is_repeated(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    played.words[0, 2] = ["inconclusive", "invalid"]
    assert bisect() == 0
    assert played.asked.count((0, 2)) == 3
    assert "b3 brought the loss" in capsys.readouterr().out


def test_what_is_no_builds_fault_stops_the_search_and_is_kept(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    played.words[0, 2] = ["disk"]
    assert bisect() == 2
    said = capsys.readouterr().err
    assert "status 9: no space left on device; go on with --resume" in said
    played.words.clear()
    assert main(["bisect", "--resume", str(folder())]) == 0


def test_without_a_loss_there_is_nothing_to_search_for(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect("--arm", "mtp-off") == 0
    assert "nothing to search for: b5 is not worse than b0" in capsys.readouterr().out


def test_a_plan_measures_nothing(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect("--plan") == 0
    assert capsys.readouterr().out.split("\n")[0] == "6 builds from b0 to b5, about 5 sessions of two builds"
    assert not played.asked
    assert not Path("results").exists()


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metric", "tokens"], "no metric 'tokens'"),
        (["--arm", "mtp-onn"], "mtp-onn"),
        (["--good", "b9"], "b9: no build"),
        (["--resume", "nowhere"], "takes the folder of a search"),
    ],
)
def test_wrong_usage_is_a_sentence(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect(*options) == 2
    assert said in capsys.readouterr().err


def test_a_package_whose_exchange_takes_the_loss_away_is_named(
    played: Played, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolved(text: str, *rest: object) -> Build:
        versions = {"b0": ("2.9.1", "3.5.0", "2.1"), "b5": ("2.10.0", "3.6.0", "2.2")}[text]
        return Build(
            text, lock=tuple(f"{n}=={v}" for n, v in zip(("torch", "triton", "numpy"), versions, strict=True))
        )

    monkeypatch.setattr(builds, "resolve", resolved)
    played.words |= {(0, 1): ["inconclusive", "pass"], (0, 2): ["regression"], (0, 3): ["regression"]}
    assert bisect("--swap") == 0
    said = capsys.readouterr().out
    assert "b5,torch==2.9.1 against b0: go" in said
    assert "torch==2.9.1 brought the loss" in said
    assert "with triton==3.5.0 the loss stays" in said
    assert "numpy" not in said, "it decides nothing about speed"
    assert played.asked == [(0, 3), (0, 1), (0, 1), (0, 2)]


@pytest.mark.usefixtures("played")
def test_a_swap_of_what_is_not_known_asks_for_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect("--swap") == 2
    assert "name the packages: --swap torch==2.9.1" in capsys.readouterr().err
    assert bisect("--swap", "torch") == 2
    assert "torch: not known in which version" in capsys.readouterr().err
