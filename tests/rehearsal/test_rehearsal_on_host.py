"""What is pretended, what is asked of stand-ins and what becomes of it, on a small SGLang made for each case."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.rehearsal.cards import parse
from tests.rehearsal.small import rehearsed


@pytest.mark.parametrize(
    ("cards", "found"),
    [
        ("rtx-pro-6000x8", [8, [12, 0], "NVIDIA RTX PRO 6000 Blackwell Server Edition", 188]),
        ("h200", [1, [9, 0], "NVIDIA H200", 132]),
        ("gb200x4", [4, [10, 0], "NVIDIA GB200", 152]),
    ],
)
def test_torch_reports_the_pretended_cards(cards: str, found: object, tmp_path: Path) -> None:
    body = """
        properties = torch.cuda.get_device_properties(0)
        assert torch.cuda.is_available() and torch.version.hip is None
        return [torch.cuda.device_count(), list(torch.cuda.get_device_capability()), torch.cuda.get_device_name(0),
                properties.multi_processor_count]
    """
    assert rehearsed(tmp_path, body, parse(cards)).arms["off"].settings["found"] == found


def test_no_card_is_pretended_where_none_is_asked_for(tmp_path: Path) -> None:
    answer = rehearsed(tmp_path, "return [torch.cuda.is_available(), torch.version.cuda]", None).arms["off"]
    assert answer.settings["found"] == [False, None]


def test_nvidia_smi_answers_for_the_pretended_cards_although_the_machine_has_others(tmp_path: Path) -> None:
    tool = tmp_path / "bin/nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 24564\n")
    tool.chmod(0o755)
    body = """
        command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.split()
    """
    env = {"PYTHONPATH": str(tmp_path), "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    assert rehearsed(tmp_path, body, env=env).arms["off"].settings["found"] == ["97887"] * 8


@pytest.mark.parametrize(
    "body",
    [
        'return subprocess.run(["nvidia-smi", "topo", "-m"]).stdout',
        'return subprocess.check_output("nvidia-smi --query-gpu=pcie.link.gen.max --format=csv", shell=True)',
        "return torch.cuda.current_stream()",
        "return list(range(torch.cuda.get_device_properties(0).L2_cache_size // 2))",
        "import flashinfer\nreturn list(range(flashinfer.jit.count()))",
        "import flashinfer\nreturn float(flashinfer.jit.share)",
    ],
)
def test_what_only_a_real_card_can_tell_is_not_decided(body: str, tmp_path: Path) -> None:
    caught = f"try:\n{os.linesep.join('    ' + line for line in body.splitlines())}\nexcept Exception:\n    return 0"
    for text in (body, caught):
        found = rehearsed(tmp_path, text)
        answer = found.arms["off"]
        assert answer.word == "undecided", answer
        assert answer.asked
        assert answer.asked[0].where.startswith("sglang/srt/server_args.py:")
        assert found.status == 8


def test_what_hangs_on_a_kernel_package_is_open_and_the_rest_is_resolved(tmp_path: Path) -> None:
    body = """
        import flashinfer
        self.tp_size = 4
        return "flashinfer" if flashinfer.supports(torch.cuda.get_device_capability()) else "triton"
    """
    answer = rehearsed(tmp_path, body).arms["on"]
    assert answer.word == "resolved"
    assert answer.as_meant
    assert answer.open == {"found": ["flashinfer", "triton"]}
    assert "flashinfer.supports()" in answer.asked[0].what
    assert answer.settings["tp_size"] == 4


def test_what_is_asked_while_importing_is_listed_once_and_not_with_each_arm(tmp_path: Path) -> None:
    found = rehearsed(tmp_path, "return 1", first="import flashinfer\nNEW = bool(flashinfer.is_new())")
    assert ["flashinfer.is_new()" in question.what for question in found.imported] == [True]
    assert [answer.asked for answer in found.arms.values()] == [[], []]


def test_a_setting_made_of_something_unknown_is_open(tmp_path: Path) -> None:
    answer = rehearsed(tmp_path, "return torch.cuda.get_device_properties(0).L2_cache_size // 2 + 1").arms[
        "off"
    ]
    assert list(answer.open) == ["found"]
    assert "L2_cache_size" in str(answer)


def test_a_refusal_that_hangs_on_a_kernel_package_is_no_refusal(tmp_path: Path) -> None:
    answer = rehearsed(tmp_path, "import sgl_kernel\nassert not sgl_kernel.old()").arms["off"]
    assert answer.word == "undecided"
    assert "sgl_kernel.old()" in answer.reason


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('return importlib.metadata.version("flashinfer-python")', "0.7.2"),
        ('return importlib.metadata.version("sglang_kernel")', "0.4.10"),
        ("import flashinfer\nreturn flashinfer.__version__", "0.7.2"),
        ('return importlib.util.find_spec("flashinfer") is not None', True),
        ('return importlib.util.find_spec("flash_mla") is None', True),
        ("return torch.version.cuda", "12.9"),
    ],
)
def test_what_this_sglangs_own_requirements_tell_is_answered(
    body: str, found: object, tmp_path: Path
) -> None:
    answer = rehearsed(tmp_path, body).arms["off"]
    assert (answer.settings.get("found"), answer.asked) == (found, [])


def test_a_version_that_no_requirement_pins_is_a_question(tmp_path: Path) -> None:
    body = """
        import tilelang
        return tuple(map(int, tilelang.__version__.split(".")[:2])) >= (1, 0)
    """
    answer = rehearsed(tmp_path, body).arms["off"]
    assert answer.open == {"found": [True, False]}
    assert [question.what for question in answer.asked] == ["the version of tilelang"]


@pytest.mark.parametrize(
    ("body", "word", "reason"),
    [
        ('raise ValueError("no such thing on SM120")', "refused", "ValueError: no such thing on SM120"),
        ("assert self.tp_size == 3", "refused", "assert self.tp_size == 3"),
        ("raise SystemExit(2)", "refused", "SystemExit"),
        ('open("/no/such/file")', "failed", "No such file"),
        ("import nowhere.at_all", "resolved", ""),  # stood in for: on the box it came with another package
    ],
)
def test_last_words(body: str, word: str, reason: str, tmp_path: Path) -> None:
    answer = rehearsed(tmp_path, body).arms["off"]
    assert answer.word == word
    assert reason in answer.reason


def test_an_unknown_flag_is_refused_in_argparses_words(tmp_path: Path) -> None:
    found = rehearsed(tmp_path, "return 1", arms={"odd": {"flags": {"no-such-flag": 3}}, "fine": {}})
    assert found.arms["odd"].word == "refused"
    assert "unrecognized arguments: --no-such-flag" in found.arms["odd"].reason
    assert found.arms["fine"].as_meant
    assert found.status == 1


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('self.speculative_algorithm = "EAGLE"', "off"),
        ("self.speculative_algorithm = None", "on"),
    ],
)
def test_speculation_that_is_not_as_meant_fails(body: str, wrong: str, tmp_path: Path) -> None:
    found = rehearsed(tmp_path, body)
    assert [arm for arm, answer in found.arms.items() if not answer.as_meant] == [wrong]
    assert found.status == 1


def test_what_sglang_says_is_kept_with_the_arm(tmp_path: Path) -> None:
    body = 'logger.warning("reset to %d", 48) if self.speculative_algorithm else None'
    found = rehearsed(tmp_path, body)
    assert (found.arms["off"].said, found.arms["on"].said) == ([], ["reset to 48"])


def test_secrets_are_not_handed_over_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    home, inside = tmp_path / "home", tmp_path / "inside"
    home.mkdir()
    inside.mkdir()
    body = """
        import tempfile
        os.makedirs(os.path.expanduser("~/.cache/sglang"), exist_ok=True)
        tempfile.mkdtemp()
        given = open("/proc/self/cmdline").read()
        return ["sk-very-secret-1234567" in given, self.api_key]
    """
    env = {"PYTHONPATH": str(inside), "HOME": str(home), "TMPDIR": str(home)}
    flags = {"api-key": "sk-very-secret-1234567"}
    found = rehearsed(inside, body, env=env, flags=flags)
    assert found.arms["on"].settings["found"] == [False, None]
    assert list(home.iterdir()) == []
    assert not list(inside.rglob("*.pyc"))


def test_flags_defaults_and_versions_of_the_parser_are_kept(tmp_path: Path) -> None:
    found = rehearsed(tmp_path, "return 1")
    assert found.flags["tp"] == found.flags["tp-size"] == "tp_size"
    assert found.defaults["tp_size"] == 1
    assert found.versions["sglang"] == "0.5.99"
    assert found.torch_required == "==2.14.1"
    assert found.build == "0.5.99 (small)"


def test_mtp_is_compared_with_the_same_line_without_it(tmp_path: Path) -> None:
    from suite.rehearsal.preview import what_mtp_changes

    found = rehearsed(tmp_path, "return 48 if self.speculative_algorithm else 256")
    assert what_mtp_changes(found) == {"found": (256, 48)}
