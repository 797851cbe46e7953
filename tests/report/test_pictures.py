"""Pictures of a stored run: what they draw, on light and dark pages, for eyes that see colours differently."""

from __future__ import annotations

import itertools
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from suite.gate import Key, Verdict
from suite.gate.verdicts import Estimate
from suite.report import pictures, told
from suite.report.pictures.acceptance import by_position
from suite.report.pictures.forest import forest, towards_better
from suite.report.pictures.load import cards_of, throughputs
from suite.report.pictures.style import COLOURS, LINES, WORDS, canvas
from suite.report.told import ToldRun
from tests.report import made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ToldRun:
    root = tmp_path_factory.mktemp("run")
    return told.read(made.stored(root, made.session(slow=0.05)))


def verdict(metric: str, change: float, low: float, high: float) -> Verdict:
    estimate = Estimate(metric, "s", 1.0, 1.0, change, low, high)
    return Verdict("q[c1]", "mtp-on", metric, "regression", "", "", estimate, 0.02)


def test_every_picture_of_a_run_is_drawn_with_the_forest_plot_first(run: ToldRun) -> None:
    names = [picture.name for picture in pictures.of_run(run)]
    assert names == ["forest", "clients", "users", "acceptance", "ttft"]


def test_a_picture_is_well_formed_and_the_same_every_time(run: ToldRun) -> None:
    first, second = pictures.of_run(run), pictures.of_run(run)
    assert [p.svg for p in first] == [p.svg for p in second]
    for picture in first:
        assert ElementTree.fromstring(picture.svg).tag.endswith("svg")
        assert picture.said


def test_every_colour_has_a_light_and_a_dark_value(run: ToldRun) -> None:
    for picture in [*pictures.of_run(run), *pictures.of_series(run, run.verdicts[0].key)]:
        body = picture.svg[picture.svg.index("</style>") :]
        assert "prefers-color-scheme:dark" in picture.svg
        assert set(re.findall(r"(?<!, )#[0-9a-f]{6}", body)) <= {
            "#000000"
        }  # a clip path's, which is not drawn


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio."""

    def luminance(shade: str) -> float:
        parts = np.array([int(shade[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", [0, 1], ids=["light", "dark"])
def test_what_stands_for_data_stands_out_from_the_paper(page: int) -> None:
    paper = COLOURS["paper"][page]
    data = {name for name in COLOURS if name not in ("paper", "rule", "band")}
    faint = {name: contrast(COLOURS[name][page], paper) for name in data}
    assert min(faint.values()) >= 4.5, faint


def test_series_and_words_differ_in_form_too() -> None:
    assert len({mark for _, mark, _ in LINES}) == len(LINES)
    assert len({str(dashes) for _, _, dashes in LINES}) == len(LINES)
    grave = [WORDS[word][1] for word in ("regression", "invalid", "inconclusive", "improvement", "pass")]
    assert all(a != b for a, b in itertools.combinations(grave, 2))


def test_a_loss_is_to_the_left_whatever_the_metric() -> None:
    slower = verdict("ttft_s", 0.10, 0.08, 0.12)
    fewer = verdict("output_tokens_per_s", -0.10, -0.12, -0.08)
    assert towards_better(slower) == pytest.approx((-0.10, -0.12, -0.08))
    assert towards_better(fewer) == pytest.approx((-0.10, -0.12, -0.08))


def test_a_verdict_without_a_comparison_is_no_row_of_the_forest() -> None:
    bare = Verdict("q", "mtp-on", "ttft_s", "unjudged", "", "", Estimate("TTFT", "s", 1.0), 0.02)
    assert forest([bare]) is None


def test_loads_and_cards_come_from_what_was_measured(run: ToldRun) -> None:
    found = throughputs(run.session)
    assert {arm: sorted(of) for arm, of in found.items()} == {
        a: [1, 4, 16, 64] for a in ("mtp-off", "mtp-on")
    }
    assert found["mtp-off"][4] == pytest.approx([380.0] * 3, rel=0.01)
    series = run.session.find("decode_throughput[c1]", "mtp-off")
    assert series is not None
    assert cards_of(series) == 4  # tp 4; the host has more


def test_the_crossover_is_told_where_on_begins_to_lose(run: ToldRun) -> None:
    (clients,) = [p for p in pictures.of_run(run) if p.name == "clients"]
    assert "slower than no MTP from 64 clients on" in clients.said
    assert "crossover at about" in clients.svg


def test_acceptance_by_position_is_read_from_tables() -> None:
    rows = [{"content": "code", "temperature": 0.6, "length": 2.0, "position_1": 0.9, "position_2": 0.5}]
    assert by_position({"t": rows, "other": [{"arm": "x"}]}) == {"code, t 0.6": [0.9, 0.5]}


def test_units_are_on_the_axes(run: ToldRun) -> None:
    shown = {p.name: p.svg for p in pictures.of_run(run)}
    for name, unit in {"clients": "tokens/s", "users": "tokens/s", "ttft": "TTFT, ms", "forest": "%"}.items():
        assert unit in shown[name]


def test_hostile_names_are_text_in_a_picture() -> None:
    named = verdict("ttft_s", 0.1, 0.08, 0.12)
    drawn = forest(
        [Verdict(made.HOSTILE, "$x_1$", *[getattr(named, f) for f in named.__struct_fields__[2:]])]
    )
    assert drawn is not None
    root = ElementTree.fromstring(drawn.svg)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "img", "foreignObject"}
    assert "onerror" not in {name for element in root.iter() for name in element.attrib}
    assert any("$x_1$" in (element.text or "") for element in root.iter())


def test_without_matplotlib_the_message_says_what_to_install(
    run: ToldRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'sglang-perf-gate\[report\]'"), canvas(1.0):
        pass


def test_a_series_shows_every_round_of_every_launch(run: ToldRun) -> None:
    _, samples = pictures.of_series(run, Key("decode_throughput[c4]", "mtp-on", ""))
    assert samples.name == "samples"
    assert [f"launch {n}" in samples.svg for n in (1, 2, 3, 4)] == [True, True, True, False]


def test_pictures_are_drawn_again_from_a_stored_run(tmp_path: Path) -> None:
    from suite.__main__ import main

    folder = made.stored(tmp_path, made.session())
    assert main(["report", str(folder), "--pictures", str(tmp_path / "svg")]) == 0
    assert (tmp_path / "svg" / "forest.svg").read_text().startswith("<svg")
