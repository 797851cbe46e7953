"""The command line: parsed, refused and resolved as SGLang 0.5.23 does it."""

import json
import signal
import socket
import time

import pytest

from simulator import arguments, checkpoint, faults, profiles
from simulator.behaviour import Behaviour
from simulator.checkpoints import make
from simulator.config_file import merge_config_file
from simulator.resolution import LaunchError, resolve
from tests.simulator.process import MODEL, MODEL_WITHOUT_MTP, free_port, run, serving

BLACKWELL = (
    "--tp-size 4 --quantization modelopt_fp4 --fp4-gemm-backend flashinfer_cutlass --moe-runner-backend flashinfer_cutlass "
    "--attention-backend flashinfer --kv-cache-dtype fp8_e4m3 --mamba-ssm-dtype bfloat16 --disable-custom-all-reduce "
    "--disable-radix-cache"
)


def _resolved(*flags: str, odd: Behaviour | None = None, model: str = MODEL):
    parsed = arguments.parse(["--model-path", model, *" ".join(flags).split()])
    odd = odd or faults.behaviour_of(parsed.own.faults)
    return resolve(parsed, checkpoint.read(model), profiles.load(parsed.own.profile), odd)


def _speculative(resolved):
    keys = ("algorithm", "num_steps", "eagle_topk", "num_draft_tokens")
    return tuple(resolved.settings[f"speculative_{key}"] for key in keys)


@pytest.mark.parametrize(
    ("flags", "speculative", "depth"),
    [
        ("", (None, None, None, None), None),
        ("--speculative-algorithm NEXTN", ("EAGLE", 3, 1, 4), 3),
        ("--speculative-algorithm nextn", ("EAGLE", 3, 1, 4), 3),
        ("--speculative-algo NextN", ("EAGLE", 3, 1, 4), 3),
        (
            "--speculative-algorithm EAGLE --speculative-num-steps 5 --speculative-eagle-topk 1",
            ("EAGLE", 5, 1, 6),
            5,
        ),
        (
            "--speculative-algorithm NEXTN --speculative-num-steps 4 --speculative-eagle-topk 1 "
            "--speculative-num-draft-tokens 6",
            ("EAGLE", 4, 1, 5),
            4,
        ),
        ("--speculative-num-steps 4", (None, 4, None, None), None),
    ],
)
def test_speculation_resolves(flags, speculative, depth) -> None:
    resolved = _resolved(flags)
    assert _speculative(resolved) == speculative
    assert (resolved.speculation.steps if resolved.speculation else None) == depth
    assert resolved.settings["speculative_draft_model_path"] is None


def test_side_effects_of_speculation() -> None:
    off, on = (
        _resolved("--enable-mixed-chunk"),
        _resolved("--enable-mixed-chunk --speculative-algorithm NEXTN"),
    )
    assert off.settings["max_running_requests"] is None
    assert on.settings["max_running_requests"] == on.limits.running == 48
    assert off.settings["enable_mixed_chunk"]
    assert on.settings["enable_mixed_chunk"], "EAGLE and mixed chunks go together from 0.5.19 on"
    older = _resolved("--enable-mixed-chunk --speculative-algorithm NEXTN --sglang-version 0.5.16")
    assert not older.settings["enable_mixed_chunk"]
    assert on.limits.kv_tokens < off.limits.kv_tokens
    assert any("reset to 48" in warning for warning in on.warnings)
    pinned = _resolved("--speculative-algorithm NEXTN --max-running-requests 64")
    assert pinned.limits.running == 64
    assert not pinned.warnings


@pytest.mark.parametrize(
    ("flags", "last"),
    [
        ("--speculative-algorithm NEXTN --speculative-num-draft-tokens 4", "AssertionError"),
        ("--speculative-algorithm NEXTN --speculative-num-steps 4", "TypeError"),
        ("--speculative-algorithm NEXTT", "ValueError: Unknown speculative algorithm name: NEXTT"),
        ("--attention-backend fa3", "attention_backend=fa3 requires SM>=80 and SM<=90"),
        ("--moe-runner-backend flashinfer_trtllm", "only supported on SM100"),
        ("--mem-fraction-static 0.3", "Not enough memory. Please try to increase --mem-fraction-static"),
    ],
)
def test_what_cannot_start(flags, last) -> None:
    with pytest.raises(LaunchError, match=last):
        _resolved(flags)


def test_a_checkpoint_without_heads_cannot_speculate() -> None:
    with pytest.raises(LaunchError, match="no MTP layers"):
        _resolved("--speculative-algorithm NEXTN", model=MODEL_WITHOUT_MTP)
    assert _resolved(model=MODEL_WITHOUT_MTP).speculation is None
    assert checkpoint.read(MODEL).mtp_tensors > 0
    assert checkpoint.read(MODEL_WITHOUT_MTP).mtp_tensors == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--mamba-scheduler-strategy no_buffer",
            "unrecognized arguments: --mamba-scheduler-strategy no_buffer",
        ),
        ("--cuda-graph-max-bs 8", "ambiguous option: --cuda-graph-max-bs could match"),
        ("--speculative-num 3", "ambiguous option: --speculative-num could match --speculative-num-steps"),
        ("--speculative-num-steps three", "argument --speculative-num-steps: invalid int value: 'three'"),
        ("--attention-backend magic", "argument --attention-backend: invalid choice: 'magic'"),
        ("--fault slow-decod", "no fault 'slow-decod'; did you mean slow-decode?"),
        ("--fault slow-decode=much", "'much' is not a number"),
        ("--fault draft-dead=3", "takes no strength"),
        ("--profile quik", "no profile 'quik'"),
        ("--fault removed-flag=--tp-size --tp-size 2", "unrecognized arguments: --tp-size 2"),
    ],
)
def test_refused_with_status_2(flags, message, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["--model-path", MODEL, *flags.split()])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.startswith("usage: ")


def test_older_releases_have_older_flags() -> None:
    flags = ["--model-path", MODEL, "--sglang-version", "0.5.19", "--mamba-scheduler-strategy", "no_buffer"]
    assert arguments.parse(flags).given["mamba_scheduler_strategy"] == "no_buffer"
    info = _resolved("--sglang-version 0.5.19").settings
    assert "enable_watermark" not in info
    assert "enable_watermark" in _resolved().settings


def test_the_recipe_for_the_real_box_is_accepted() -> None:
    settings = _resolved(BLACKWELL, "--profile rtx-pro-6000-x4").settings
    assert settings["tp_size"] == 4
    assert settings["fp4_gemm_runner_backend"] == "flashinfer_cutlass"
    assert settings["disable_radix_cache"] is True


def test_every_flag_of_the_table_is_taken() -> None:
    example = {"int": "3", "size": "4Ki", "float": "0.5", "json": "{}", "str": "x"}
    for place in range(2):  # the flag itself, then its alias where it has one
        argv: list[str] = []
        wanted = [row for row in arguments.table() if len(row.get("flags", ())) > place]
        for row in wanted:
            value = row["choices"][0] if "choices" in row else example.get(row["kind"])
            argv += (
                [row["flags"][place]] if row["kind"].endswith("switch") else [row["flags"][place], str(value)]
            )
        given = arguments.parse(["--model-path", MODEL, *argv]).given
        assert {row["name"] for row in wanted} <= set(given)
    assert len(arguments.table()) > 500


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("speculative-algorithm: NEXTN\nport: 7\n", ["--speculative-algorithm", "NEXTN", "--port", "7"]),
        ("# a comment\nenable_metrics: true\ntp-size: 2  # two\n", ["--enable-metrics", "--tp-size", "2"]),
        ("enable-metrics: false\n", []),
        ('extra-metric-labels: {"a": 1}\n', ["--extra-metric-labels", '{"a": 1}']),
        ("cuda-graph-bs-decode:\n  - 1\n  - 2\n", ["--cuda-graph-bs-decode", "1", "2"]),
        ("served-model-name: 'a b'\n", ["--served-model-name", "a b"]),
    ],
)
def test_config_files(tmp_path, text, argv) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    merged = merge_config_file(arguments._sglang_parser("0.5.23", ()), ["--config", str(path), "--host", "h"])
    assert merged == [*argv, "--host", "h"]


def test_the_command_line_wins_over_the_config_file(tmp_path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("speculative-algorithm: NEXTN\nport: 7\n")
    given = arguments.parse(["--model-path", MODEL, "--config", str(path), "--port", "9"]).given
    assert given["port"] == 9
    assert given["speculative_algorithm"] == "NEXTN"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [("c.txt", "", "must be YAML format"), ("c.yaml", "just words\n", "dictionary at root level")],
)
def test_bad_config_files(tmp_path, name, text, message) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        arguments.parse(["--model-path", MODEL, "--config", str(path)])


def test_shipped_checkpoints_are_what_the_maker_writes() -> None:
    for folder, mtp in ((make.WITH_MTP, True), (make.WITHOUT_MTP, False)):
        for name, content in make.files(mtp).items():
            assert (make.FOLDER / folder / name).read_bytes() == content


def test_index_and_headers_agree() -> None:
    folder = make.FOLDER / make.WITH_MTP
    weights = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    found = {}
    for shard in set(weights.values()):
        data = (folder / shard).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__")
        assert max(entry["data_offsets"][1] for entry in header.values()) == len(data) - 8 - length
        found |= dict.fromkeys(header, shard)
    assert found == weights
    assert sum(name.startswith("mtp.") for name in weights) >= 5


# with a process


def test_a_missing_model_ends_with_status_1() -> None:
    status, output = run(model="/no/such/model")
    assert status == 1
    assert "OSError: Repo id must be in the form" in output.splitlines()[-1]


def test_memory_that_runs_out_kills_the_parent_as_sglang_does() -> None:
    status, output = run("--fault", "oom-at-start=capture")
    assert status == -signal.SIGKILL
    assert "CUDA out of memory" in output
    assert "Received sigquit from a child process" in output.splitlines()[-1]


def test_a_taken_port_is_found_out_only_after_loading() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        status, output = run("--port", str(port))
    assert status == 1
    assert "Load weight end" in output
    assert "address already in use" in output.splitlines()[-1]


def test_faults_are_listed() -> None:
    status, output = run("--list-faults")
    assert status == 0
    assert len(output.splitlines()) == len(faults.CATALOGUE)


def test_the_log_tells_the_story_of_a_start_and_an_end(tmp_path) -> None:
    with serving(tmp_path / "log", "--speculative-algorithm", "NEXTN", "--tp-size", "4") as server:
        server.chat("Write a long story.", max_tokens=200, ignore_eos=True)
    text = server.log.read_text()
    story = (
        "Max running requests is reset to 48",
        "server_args={'model_path':",
        "TP0] Load weight begin.",
        "Load weight end.",
        "KV Cache is allocated.",
        "Capture cuda graph end.",
        "The server is fired up and ready to roll!",
        "Prefill batch, #new-seq: 1",
        "Decode batch, #running-req: 1",
        "SIGTERM received.",
    )
    places = [text.find(part) for part in story]
    assert -1 not in places
    assert places == sorted(places)
    assert "accept len: " in text
    assert "cuda graph: True, gen throughput (token/s): " in text
    assert server.process.returncode == 0


def test_a_hanging_start_does_not_answer_and_ends_on_sigterm(tmp_path) -> None:
    with serving(tmp_path / "log", "--fault", "hang-at-start", ready=False) as server:
        deadline = time.monotonic() + 20
        while "Load weight begin" not in server.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(OSError):
            server.ask("GET", "/health")
        assert server.process.poll() is None
    assert "Load weight end" not in server.log.read_text()
