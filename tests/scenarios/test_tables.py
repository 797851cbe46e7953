"""Tables of a run: kept once, told as text, written whole."""

import json

from suite.gate import Outcome
from suite.questions.memory import Memory
from suite.questions.tables import Table, Tables, aligned
from suite.session.entries import Item


def test_a_row_is_kept_once_and_columns_line_up():
    tables = Tables()
    table = Table(tables, "Depth")
    for _ in range(2):
        table.row(clients=1, steps=3, tokens_per_s=446.25)
    table.row(clients=16, steps=1, tokens_per_s=None)
    assert list(tables.lines()) == [
        "Depth:",
        "  clients  steps  tokens/s",
        "        1      3     446.2",
        "       16      1         -",
        "",
    ]


def test_the_best_is_told_for_each_group():
    tables = Tables()
    table = Table(tables, "Depth")
    for clients, steps, rate in ((1, 3, 90.0), (1, 5, 100.0), (8, 3, 300.0), (8, 5, 280.0), (16, 3, None)):
        table.row(clients=clients, steps=steps, tokens_per_s=rate)
        table.best_of("tokens_per_s", by="clients", named="steps")
    assert tables.notes["Depth"] == ["best steps: 5 at 1 clients, 3 at 8 clients"]


def test_what_stands_below_a_table_is_restored_as_the_last_item_left_it():
    """Told again, each item's own best would otherwise stand there beside the best of all."""
    memory, told_again = Memory(), Memory()
    table = Table(memory.tables, "Depth")
    for steps, rate in ((1, 90.0), (2, 100.0)):
        memory.mark()
        table.row(clients=1, steps=steps, tokens_per_s=rate)
        table.best_of("tokens_per_s", by="clients", named="steps")
        outcome = Outcome("depth", "depth", f"depth-{steps}", 1, "kept")
        told_again.restore(Item(f"test_depth[{steps}]", 1, outcome, 0.0, **memory.left()))
    assert told_again.tables.notes == memory.tables.notes == {"Depth": ["best steps: 2 at 1 clients"]}
    assert told_again.tables.rows == memory.tables.rows


def test_saved_as_json(tmp_path):
    tables = Tables()
    Table(tables, "T").row(a=1)
    Table(tables, "T").note("a sentence")
    tables.save(tmp_path / "tables.json")
    assert json.loads((tmp_path / "tables.json").read_text()) == {
        "T": {"rows": [{"a": 1}], "notes": ["a sentence"]}
    }
    assert [path.name for path in tmp_path.iterdir()] == ["tables.json"]


def test_a_table_without_rows_has_no_heads():
    assert aligned([]) == []
