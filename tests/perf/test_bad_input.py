"""Bad input ends as a named error that says what to do; other scenarios still run, and nothing is left behind."""

import re
import socket

import pytest

from tests.perf.running import SMALL, config, interrupt, perf, servers_of, start


def test_an_unknown_target_suggests_the_nearest(tmp_path):
    ran = perf(tmp_path, "--target=simulatr")
    assert ran.code == 4
    assert "did you mean 'simulator'" in ran.out
    assert "Traceback" not in ran.out


def test_a_broken_file_names_table_and_key(tmp_path):
    ran = perf(tmp_path, config(tmp_path, more="gpsu = 3"))
    assert ran.code == 4
    assert "[targets.here] unknown key 'gpsu'; did you mean 'gpus'?" in ran.out
    assert "Traceback" not in ran.out


def test_a_missing_file_says_how_to_name_one(tmp_path):
    ran = perf(tmp_path, f"--suite-config={tmp_path / 'none.toml'}")
    assert ran.code == 4
    assert "no such file" in ran.out
    assert "--suite-config" in ran.out


@pytest.mark.parametrize("words", ["four", "1,0", "1,,8", "-1"])
def test_numbers_of_clients_that_are_none(tmp_path, words):
    ran = perf(tmp_path, f"--concurrency={words}", "--collect-only")
    assert ran.code == 4
    assert f"--concurrency {words}: expected numbers of clients, such as 1,4,8" in ran.out
    assert "Traceback" not in ran.out


def test_numbers_of_clients_take_the_place_of_the_budgets(tmp_path):
    ran = perf(tmp_path, "--concurrency=8, 4,4", "--collect-only", "-q", "-k", "decode and off and launch")
    assert [clients for clients in ("c1", "c4", "c8") if f"[mtp-off-{clients}-launch1]" in ran.out] == [
        "c4",
        "c8",
    ]


def test_an_unknown_flag_is_named_with_the_servers_own_words(tmp_path):
    ran = perf(tmp_path, *SMALL, "--flag=speculativ-nonsense=3", "-k", "decode and off")
    assert ran.code == 1
    assert "--speculativ-nonsense" in ran.out
    assert "unrecognized arguments" in ran.out
    assert "Traceback (most" not in ran.out


def test_a_model_path_that_is_not_there(tmp_path):
    ran = perf(tmp_path, *SMALL, config(tmp_path, model="/no/such/model"), "-k", "decode and off")
    assert ran.code == 9
    assert "/no/such/model" in ran.first_line_of("mtp-off-c1-launch1")


def test_a_port_in_use_is_found_before_anything_is_loaded(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = perf(tmp_path, *SMALL, config(tmp_path, more=f"port = {port}"), "-k", "decode and off")
    assert ran.code == 9
    assert f"port {port}" in ran.first_line_of("mtp-off-c1-launch1")


def test_a_server_that_hangs_at_its_start(tmp_path):
    more = "--flag=fault=hang-at-start"
    ran = perf(tmp_path, *SMALL, config(tmp_path, ready_s=3.0), more, "-k", "decode and off")
    assert ran.code != 0
    assert "not ready within 3 s" in ran.first_line_of("mtp-off-c1-launch1")


def test_a_server_that_dies_leaves_the_other_arm_measured(tmp_path):
    ran = perf(tmp_path, *SMALL, config(tmp_path), "--flag=fault=crash-after=3", "-k", "asked_for or decode")
    assert ran.code == 1
    assert "died" in ran.out
    assert len(ran.logs) >= 2


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("usage-missing", "usage_missing"),
        ("truncated-stream", "requests failed"),
        ("early-stop", "early_stop"),
    ],
)
def test_answers_that_cannot_be_measured_are_invalid_never_a_regression(tmp_path, fault, told):
    ran = perf(tmp_path, *SMALL, config(tmp_path), f"--flag=fault={fault}", "-k", "decode and off")
    assert ran.code in (1, 8)
    assert told in ran.out
    assert "regression" not in ran.out


def test_a_corrupt_baseline_is_named_and_kept(tmp_path):
    assert perf(tmp_path, *SMALL, config(tmp_path), "--record-baseline", "-k", "decode and off").code == 0
    (stored,) = (tmp_path / "baselines").glob("*/decode*off*.json")
    stored.write_text("{ half a file")
    ran = perf(tmp_path, *SMALL, config(tmp_path), "-k", "decode and off")
    assert ran.code == 8
    assert stored.name in ran.out
    assert stored.read_text() == "{ half a file"


def test_after_an_interrupt_nothing_is_left(tmp_path):
    running = start(tmp_path, *SMALL, "--rounds=50", config(tmp_path), "-k", "decode")
    assert running.stdout is not None
    for line in running.stdout:
        if "ready after" in line:
            break
    assert servers_of(tmp_path)
    interrupt(running)
    assert running.returncode == 2
    assert not servers_of(tmp_path)


def test_a_missing_baseline_can_be_made_an_error(tmp_path):
    ran = perf(tmp_path, *SMALL, config(tmp_path), "--require-baseline", "-k", "decode and off")
    assert ran.code == 1
    assert "no baseline" in ran.out


def test_the_plan_launches_nothing(tmp_path):
    ran = perf(tmp_path, "--plan", "--target=blackwell", "--budget=gate")
    assert ran.code == 0
    assert re.search(r"^9 launches, \d+ rounds: about \d+ h \d+ min", ran.out, re.M)
    assert re.search(r"^at worst 27 launches, \d+ rounds: about \d+ h \d+ min", ran.out, re.M)
    assert not list((tmp_path / "results").glob("*"))


def test_the_plan_tells_how_small_a_loss_of_acceptance_it_will_show(tmp_path):
    """More prompts, smaller losses: 51 long ones show less than 256 short ones do, and both are told before a launch."""
    ran = perf(tmp_path, "--plan", "--target=blackwell", "--budget=gate")
    told = {
        name: (int(prompts), float(loss))
        for name, prompts, loss in re.findall(r"^  (acceptance_\S+) +(\d+) +([\d.]+) %$", ran.out, re.M)
    }
    assert told["acceptance_length[code-t0]"][0] == 256
    assert told["acceptance_by_context[10240]"][0] == 51
    assert 2.0 < told["acceptance_length[code-t0]"][1] < 4.0 < told["acceptance_by_context[10240]"][1]
    assert "10 rounds instead of 5" in ran.out


def test_ids_are_readable(tmp_path):
    ran = perf(tmp_path, "--collect-only", "-q", "--launches=2")
    assert "scenarios/test_decode.py::test_decode_throughput[mtp-on-c1-launch2]" in ran.out.splitlines()
    assert "scenarios/test_decode.py::test_decode_throughput[mtp-on-c1-verdict]" in ran.out.splitlines()


def test_a_run_is_not_split_over_workers(tmp_path):
    ran = perf(tmp_path, "-n2")
    assert ran.code == 4
    assert "-n does not go with -m perf" in ran.out
