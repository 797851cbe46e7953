"""What a command line resolves to, asked of small packages that resolve the way SGLang's versions do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.hosts import LocalHost
from suite.probes import installation
from suite.probes.installation import CannotResolve, Refused, Resolved
from suite.probes.on_host import installed
from suite.probes.on_host.scan_source import Package
from suite.probes.remote import run_script
from suite.sglang.errors import InstallationError, ProbeHostError
from suite.sglang.flags import Flags
from tests.probes.making import CONSTRUCTED, RESOLVED_ONCE, install_sglang

Install = Callable[[str], dict[str, str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """A package called sglang with this server_args.py; the environment in which Python finds it."""

    def make(server_args: str) -> dict[str, str]:
        return install_sglang(tmp_path, server_args)

    return make


def resolve(env: dict[str, str], **flags: str) -> Resolved | Refused | CannotResolve:
    named = {name.replace("_", "-"): value for name, value in {"model_path": "m", **flags}.items()}
    return installation.resolve(LocalHost(), sys.executable, Flags(named), env)


@pytest.mark.parametrize("source", [CONSTRUCTED, RESOLVED_ONCE], ids=["up to 0.5.16", "0.5.20 and later"])
def test_both_ways_of_resolving(install: Install, source: str) -> None:
    env = install(source)
    on, off = resolve(env, speculative_algorithm="NEXTN"), resolve(env)
    assert isinstance(on, Resolved)
    assert isinstance(off, Resolved)
    assert (on.speculation.algorithm, on.speculation.num_steps) == ("EAGLE", 3)
    assert off.speculation.known
    assert not off.speculation.on
    assert on.settings["table.decode.max_bs"] == 8


def test_a_flag_that_is_not_known_or_ambiguous_is_refused_in_sglangs_own_words(install: Install) -> None:
    env = install(CONSTRUCTED)
    unknown, ambiguous = resolve(env, mamba_scheduler_strategy="x"), resolve(env, speculative="NEXTN")
    assert isinstance(unknown, Refused)
    assert "unrecognized arguments: --mamba-scheduler-strategy" in unknown.reason
    assert isinstance(ambiguous, Refused)
    assert "ambiguous option" in ambiguous.reason


def test_an_abbreviation_is_taken(install: Install) -> None:
    outcome = resolve(install(CONSTRUCTED), speculative_algo="NEXTN")
    assert isinstance(outcome, Resolved)
    assert outcome.speculation.on


@pytest.mark.parametrize(
    ("source", "accepted", "says"),
    [
        (
            RESOLVED_ONCE.replace("if self.spec", "raise RuntimeError('no GPU here')\n        if self.spec"),
            True,
            "no GPU",
        ),
        (RESOLVED_ONCE.replace("if self.spec", "os._exit(3)\n        if self.spec"), True, "died"),
        ("raise ImportError('libcuda.so.1')", False, "libcuda"),
        ("import sys; sys.exit('no driver')", False, "no driver"),
    ],
    ids=["resolution fails", "process dies", "import fails", "import exits"],
)
def test_what_cannot_be_resolved_says_why_and_how_far_it_got(
    install: Install, source: str, accepted: bool, says: str
) -> None:
    outcome = resolve(install(source))
    assert isinstance(outcome, CannotResolve)
    assert outcome.accepted is accepted
    assert says in outcome.reason


def test_one_command_line_does_not_colour_the_next(install: Install) -> None:
    source = CONSTRUCTED.replace("        if self.spec", "        os.environ['SEEN'] = os.environ.get('SEEN', '') + 'x'\n        self.model_path = os.environ['SEEN']\n        if self.spec", 1)  # fmt: skip
    outcomes = installation.resolve_all(
        LocalHost(), sys.executable, [Flags({"model-path": "m"})] * 3, install(source)
    )
    assert [outcome.settings["model_path"] for outcome in outcomes if isinstance(outcome, Resolved)] == [
        "x"
    ] * 3


def test_a_secret_is_not_put_on_a_command_line(install: Install) -> None:
    source = CONSTRUCTED.replace(
        "    print(", "    open(os.environ['SEEN'], 'w').write(' '.join(argv))\n    print(", 1
    )
    env = install(source)
    seen = Path(env["PYTHONPATH"]) / "seen"
    installation.resolve(
        LocalHost(),
        sys.executable,
        Flags({"model-path": "m", "api-key": "sk-secret"}),
        {**env, "SEEN": str(seen)},
    )
    assert seen.read_text() == "--model-path m"


def test_hostile_values_arrive_as_they_are(install: Install) -> None:
    path = "$(touch owned) 'a \"b\nc; d"
    outcome = resolve(install(CONSTRUCTED), model_path=path)
    assert isinstance(outcome, Resolved)
    assert outcome.settings["model_path"] == path


def test_what_is_installed_is_found_without_importing_it(install: Install) -> None:
    env = install("raise SystemExit('imported')")
    info = Path(env["PYTHONPATH"]) / "auto_mtp-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: auto-mtp\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nauto = auto_mtp:activate\n")
    (info.parent / "auto_mtp.py").write_text(
        "def activate(args):\n    args.speculative_algorithm = 'EAGLE'\n"
    )
    (info.parent / "sitecustomize.py").write_text("")
    env["SGLANG_SIMULATE_ACC_LEN"], env["SGLANG_API_KEY"] = "3", "sk-secret"
    found = installation.look(LocalHost(), sys.executable, env=env)
    assert (found.version, found.commit) == ("0.0.0.dev1+gd91c3682b", "d91c3682b")
    assert [(p.distribution, p.value) for p in found.plugins] == [("auto-mtp 1.2", "auto_mtp:activate")]
    assert [Path(place).name for place in found.customized] == ["sitecustomize.py"]
    assert found.environment["SGLANG_SIMULATE_ACC_LEN"] == "3"
    assert found.environment["SGLANG_API_KEY"] == "***"
    scanned = installation.scan(LocalHost(), sys.executable, env=env)
    assert [(site.file, site.line) for site in scanned.activations] == [("auto_mtp.py", 2)]


def test_a_hook_file_is_scanned_as_text(tmp_path: Path) -> None:
    hook = tmp_path / "auto.pth"
    hook.write_text("import sglang.srt.server_args as s; s.ServerArgs.speculative_algorithm = 'EAGLE'\n")
    assert [site["class"] for site in Package().scan(str(hook)).sites] == ["activation"]


def test_a_pth_file_that_hooks_sglang_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "auto.pth").write_text("import sglang_auto; sglang_auto.patch()\n")
    (tmp_path / "editable.pth").write_text("/src/sglang/python\nimport _virtualenv\n")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path), "/not/there"])
    assert [Path(place).name for place in installed.customized() if place.endswith(".pth")] == ["auto.pth"]


def test_no_sglang_and_no_interpreter_have_their_own_names(tmp_path: Path) -> None:
    with pytest.raises(InstallationError, match="no SGLang in"):
        installation.look(LocalHost(), sys.executable, str(tmp_path))
    with pytest.raises(ProbeHostError, match="no such interpreter"):
        installation.look(LocalHost(), str(tmp_path / "python"))


def test_a_probe_that_hangs_or_prints_nothing_is_named(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    with pytest.raises(ProbeHostError, match=r"did not end within 0\.3 s"):
        run_script(LocalHost(), str(script), ["installed"], timeout_s=0.3)
    script.write_text("#!/bin/sh\necho this is no Python >&2; exit 3\n")
    with pytest.raises(ProbeHostError, match=r"status 3.*no Python"):
        run_script(LocalHost(), str(script), ["installed"])
