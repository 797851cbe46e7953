"""Each broken promise is told in the failing scenario's first line, with what was expected and what was found."""

import pytest

from tests.perf.running import SMALL, config, perf


@pytest.mark.parametrize(
    ("fault", "item", "told"),
    [
        ("mtp-auto-on", "test_mtp_is_off_unless_asked_for[mtp-off-launch1]", "MTP is on although"),
        ("mtp-ignored", "test_mtp_is_on_when_asked_for[mtp-on-launch1]", "MTP is off although"),
        ("draft-dead", "test_mtp_is_on_when_asked_for[mtp-on-launch1]", "acceptance length 1.000"),
    ],
)
def test_activation_faults(tmp_path, fault, item, told):
    ran = perf(tmp_path, *SMALL, config(tmp_path), f"--flag=fault={fault}", "-k", item.split("[")[0])
    assert ran.code == 1
    assert told in ran.first_line_of(item)


def test_a_dead_draft_is_below_the_acceptance_floor(tmp_path):
    ran = perf(
        tmp_path, *SMALL, config(tmp_path), "--flag=fault=draft-dead", "-k", "acceptance_length and code"
    )
    assert ran.code == 1
    assert "acceptance length 1.000 is below the floor" in ran.out


def test_without_a_fault_every_promise_holds_and_two_arms_are_two_launches(tmp_path):
    ran = perf(tmp_path, *SMALL, config(tmp_path), "-k", "decode_throughput or asked_for")
    assert ran.code == 0
    assert [log.stem for log in ran.logs] == ["01-mtp-off", "02-mtp-on"]
    assert "unjudged" in ran.out
    assert "--record-baseline" in ran.out


def test_every_answer_of_an_acceptance_pass_is_kept_by_its_prompt(tmp_path):
    ran = perf(tmp_path, *SMALL, config(tmp_path), "-k", "acceptance_length and (code or prose)")
    assert ran.code in (0, 8), ran.out
    series = {one["question"]: one for one in ran.run["session"]["series"]}
    for kind in ("code", "prose"):
        (launch,) = series[f"acceptance_length[{kind}-t0]"]["launches"]
        answers = launch["answers"]
        assert len(set(answers["prompts"])) == 12
        assert len(set(answers["texts"])) == 12, "different prompts, different answers"
        assert answers["tokens"] == [48] * 12
        told = 1 + sum(answers["drafts"]) / sum(answers["steps"])
        assert told == pytest.approx(launch["rounds"]["acceptance_length"][0], rel=1e-5)
