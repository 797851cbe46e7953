"""The source scan finds every way a package can switch speculation on, and accuses none that only hands it on."""

from __future__ import annotations

import textwrap
import zipfile
from pathlib import Path

import pytest

from suite.hosts import LocalHost
from suite.probes import installation
from suite.probes.on_host.scan_source import Package

DECLARED = {"srt/server_args.py": "class ServerArgs:\n    speculative_algorithm: str | None = None\n"}

ACTIVATIONS = {
    "attribute": "def f(args):\n    args.speculative_algorithm = 'EAGLE'",
    "enum member": "def f(args):\n    args.speculative_algorithm = SpeculativeAlgorithm.EAGLE",
    "only when unset": "def f(args):\n    if args.speculative_algorithm is None:\n        args.speculative_algorithm = 'EAGLE'",
    "else of asked": (
        "def f(args):\n    if args.speculative_algorithm:\n        pass\n    else:\n        args.speculative_algorithm = pick()"
    ),
    "after an early return of the asked": (
        "def f(args):\n    if args.speculative_algorithm is not None:\n        return\n    args.speculative_algorithm = 'EAGLE'"
    ),
    "guarded by another setting": (
        "def f(args):\n    if args.speculative_num_steps:\n        args.speculative_algorithm = 'EAGLE'"
    ),
    "asked or not": (
        "def f(args):\n    if args.speculative_algorithm == 'NEXTN' or has_mtp(args):\n        args.speculative_algorithm = 'EAGLE'"
    ),
    "guard with None among the choices": (
        "def f(args):\n    if args.speculative_algorithm in (None, 'NEXTN'):\n        args.speculative_algorithm = 'EAGLE'"
    ),
    "conditional expression": "def f(args):\n    args.speculative_algorithm = 'EAGLE' if args.mtp else None",
    "or": "def f(args):\n    args.speculative_algorithm = args.speculative_algorithm or 'EAGLE'",
    "worked out": "def f(args):\n    args.speculative_algorithm = best_for(args.model_path)",
    "tuple target": "def f(args):\n    args.speculative_algorithm, args.topk = 'EAGLE', 1",
    "unpacked call": "def f(args):\n    args.speculative_algorithm, args.topk = defaults(args)",
    "walrus": "def f(args):\n    if (speculative_algorithm := 'EAGLE'):\n        pass",
    "for target": "def f(args):\n    for args.speculative_algorithm in ('EAGLE',):\n        pass",
    "augmented": "def f(args):\n    args.speculative_algorithm += 'EAGLE'",
    "setattr": "def f(args):\n    setattr(args, 'speculative_algorithm', 'EAGLE')",
    "object.__setattr__": "def f(args):\n    object.__setattr__(args, 'speculative_algorithm', 'EAGLE')",
    "own __setattr__": "def f(args):\n    args.__setattr__('speculative_algorithm', 'EAGLE')",
    "setattr by a built name": "def f(args):\n    setattr(args, 'speculative_' + 'algorithm', 'EAGLE')",
    "setattr by a formatted name": "def f(args, what):\n    setattr(args, f'speculative_{what}', 'EAGLE')",
    "item by a built name": "def f(args):\n    vars(args)['speculative_' + 'algorithm'] = 'EAGLE'",
    "dataclasses.replace": "def f(args):\n    return dataclasses.replace(args, speculative_algorithm='EAGLE')",
    "copy.replace": "def f(args):\n    return copy.replace(args, speculative_algorithm='EAGLE')",
    "constructor": "def f():\n    return ServerArgs(speculative_algorithm='EAGLE')",
    "dictionary update by keyword": "def f(kwargs):\n    kwargs.update(speculative_algorithm='EAGLE')",
    "dictionary update by a dictionary": "def f(args):\n    args.__dict__.update({'speculative_algorithm': 'EAGLE'})",
    "vars item": "def f(args):\n    vars(args)['speculative_algorithm'] = 'EAGLE'",
    "__dict__ item": "def f(args):\n    args.__dict__['speculative_algorithm'] = 'EAGLE'",
    "setdefault": "def f(kwargs):\n    kwargs.setdefault('speculative_algorithm', 'EAGLE')",
    "table of overrides": "DEFAULTS = {'Qwen3_5Moe': {'speculative_algorithm': 'EAGLE'}}",
    "dashed key": "DEFAULTS = {'speculative-algorithm': 'EAGLE'}",
    "pairs": "DEFAULTS = [('speculative_algorithm', 'EAGLE')]",
    "registered": "register_default('speculative_algorithm', 'EAGLE')",
    "declared": "class Args:\n    speculative_algorithm: str = 'EAGLE'",
    "declared by field": "class Args:\n    speculative_algorithm: str = field(default='EAGLE')",
    "declared by factory": "class Args:\n    speculative_algorithm: str = field(default_factory=detect)",
    "declared in an annotation": "class Args:\n    speculative_algorithm: A[str, Arg(default='EAGLE')]",
    "class variable": "class Args:\n    speculative_algorithm = 'EAGLE'",
    "parameter default": "def f(model, speculative_algorithm='EAGLE'):\n    pass",
    "keyword-only default": "def f(model, *, speculative_algorithm=pick()):\n    pass",
    "argparse default": "parser.add_argument('--speculative-algorithm', type=str, default='EAGLE')",
    "argparse const": "parser.add_argument('--speculative-algorithm', nargs='?', const='EAGLE')",
    "set_defaults": "parser.set_defaults(speculative_algorithm='EAGLE')",
    "command line": "def f(argv):\n    argv += ['--speculative-algorithm', 'NEXTN']",
    "command line in one word": "def f(argv):\n    argv.append('--speculative-algorithm=NEXTN')",
    "command line abbreviated": "def f(argv):\n    argv.extend(['--speculative-algo', 'NEXTN'])",
    "exec": "exec('args.speculative_algorithm = \"EAGLE\"')",
    "exec of a kept text": "HOOK = 'args.speculative_algorithm = \"EAGLE\"'\nexec(HOOK)",
    "eval of setattr": 'eval(\'setattr(args, "speculative_algorithm", "EAGLE")\')',
    "fallback of getattr": "def f(args):\n    return getattr(args, 'speculative_algorithm', 'EAGLE')",
    "fallback of get": "def f(kwargs):\n    return kwargs.get('speculative_algorithm', 'EAGLE')",
    "rebound stand-in": (
        "def f(args):\n    algo = args.speculative_algorithm\n    algo = 'EAGLE'\n    args.speculative_algorithm = algo"
    ),
    "loop-bound stand-in": (
        "def f(args):\n    algo = args.speculative_algorithm\n    for algo in names:\n        args.speculative_algorithm = algo"
    ),
    "nested function of a guarded block": (
        "def f(args):\n    if args.speculative_algorithm:\n        def g(other):\n            other.speculative_algorithm = 'EAGLE'"
    ),
    "try": "def f(args):\n    try:\n        pass\n    except ValueError:\n        args.speculative_algorithm = 'EAGLE'",
    "with": "def f(args):\n    with override(speculative_algorithm='EAGLE'):\n        pass",
    "match that catches all": (
        "def f(args):\n    match args.speculative_algorithm:\n        case _:\n            args.speculative_algorithm = 'EAGLE'"
    ),
    "lambda": "hook = lambda args: setattr(args, 'speculative_algorithm', 'EAGLE')",
    "decorator": "@defaults(speculative_algorithm='EAGLE')\ndef f():\n    pass",
    "under a test that it is another name": (
        "def f(key, x, kw):\n    if key != 'speculative_algorithm':\n        kw['speculative_algorithm'] = x"
    ),
    "handed to a resolver that is defined nowhere": (
        "def f(args):\n    args.speculative_algorithm = choose(args.speculative_algorithm, args.model_path)"
    ),
    "compared with what may be None": (
        "def f(args):\n    if args.speculative_algorithm == args.default:\n        args.speculative_algorithm = 'EAGLE'"
    ),
    "handed to a resolver that decides": (
        "def f(args):\n    args.speculative_algorithm = resolve(args.speculative_algorithm)\n"
        "def resolve(name):\n    return 'EAGLE'"
    ),
}

HARMLESS = {
    "alias under equality": (
        "alias",
        "def f(args):\n    if args.speculative_algorithm == 'NEXTN':\n        args.speculative_algorithm = 'EAGLE'",
    ),
    "alias after the unasked have left": (
        "alias",
        "def f(args):\n    if args.speculative_algorithm is None:\n        return\n    args.speculative_algorithm = canonical(args)",
    ),
    "upper": ("alias", "def f(args):\n    args.speculative_algorithm = args.speculative_algorithm.upper()"),
    "replace under truth": (
        "alias",
        "def f(args):\n    if args.speculative_algorithm:\n        return replace(args, speculative_algorithm='EAGLE')",
    ),
    "through a stand-in": (
        "alias",
        "def f(args):\n    algo = args.speculative_algorithm\n    if algo in ('NEXTN', 'EAGLE'):\n        args.speculative_algorithm = 'EAGLE'",
    ),
    "through an assert": (
        "alias",
        "def f(args):\n    assert args.speculative_algorithm is not None\n    args.speculative_algorithm = 'EAGLE'",
    ),
    "match by name": (
        "alias",
        "def f(args):\n    match args.speculative_algorithm:\n        case 'NEXTN':\n            args.speculative_algorithm = 'EAGLE'",
    ),
    "conditional": (
        "alias",
        "def f(args):\n    args.speculative_algorithm = 'EAGLE' if args.speculative_algorithm == 'NEXTN' else args.speculative_algorithm",
    ),
    "copy": ("copy", "def f(args, other):\n    other.speculative_algorithm = args.speculative_algorithm"),
    "parsed copy": (
        "copy",
        "class W:\n    def __init__(self, args):\n        self.speculative_algorithm = SpeculativeAlgorithm.from_string(args.speculative_algorithm)",
    ),
    "copied by getattr": (
        "copy",
        "def f(args):\n    return {'speculative_algorithm': getattr(args, 'speculative_algorithm', None)}",
    ),
    "reset": ("reset", "def f(args):\n    args.speculative_algorithm = None"),
    "reset to the enum's NONE": (
        "reset",
        "def f(args):\n    args.speculative_algorithm = SpeculativeAlgorithm.NONE",
    ),
    "decoded under its own name": (
        "input",
        "def f(key, x, kw):\n    if key == 'speculative_algorithm':\n        kw['speculative_algorithm'] = text(x)",
    ),
    "argparse": (
        "declaration",
        "parser.add_argument('--speculative-algorithm', type=str, choices=['NEXTN', 'EAGLE'])",
    ),
    "parameter": ("declaration", "def f(speculative_algorithm=None):\n    pass"),
}

NOTHING = {
    "comparison": "def f(args):\n    return args.speculative_algorithm == 'EAGLE'",
    "comparison with several flags": "def f(word):\n    return word in ('--model', '--speculative-algorithm')",
    "comparison of a flag": "def f(word):\n    return word == '--speculative-algorithm'",
    "message": "raise ValueError('use --speculative-algorithm NEXTN or EAGLE')",
    "log": "def f(cfg):\n    print(f'speculative_algorithm={cfg.speculative_algorithm}')",
    "docstring": "def f():\n    '''speculative_algorithm = \"EAGLE\" is what Gemma wants.'''",
    "comment": "# args.speculative_algorithm = 'EAGLE'",
    "read": "def f(args):\n    use(args.speculative_algorithm)",
}


def scanned(tmp_path: Path, files: dict[str, str]) -> Package:
    """A package called ``sglang`` of some files, scanned."""
    for name, text in files.items():
        file = tmp_path / "sglang" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return Package().scan(str(tmp_path / "sglang"))


def found(package: Package, file: str) -> list[str]:
    return [site["class"] for site in package.sites if site["file"] == file]


@pytest.mark.parametrize("source", ACTIVATIONS.values(), ids=ACTIVATIONS.keys())
def test_an_activation_is_found_wherever_it_hides(tmp_path: Path, source: str) -> None:
    package = scanned(tmp_path, {**DECLARED, "srt/layers/rotary.py": source})
    assert "activation" in found(package, "sglang/srt/layers/rotary.py")


@pytest.mark.parametrize(("meaning", "source"), HARMLESS.values(), ids=HARMLESS.keys())
def test_what_needs_an_algorithm_asked_for_is_no_activation(
    tmp_path: Path, meaning: str, source: str
) -> None:
    classes = found(scanned(tmp_path, {"srt/x.py": source}), "sglang/srt/x.py")
    assert meaning in classes
    assert "activation" not in classes


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING.keys())
def test_what_gives_no_value_is_not_listed(tmp_path: Path, source: str) -> None:
    assert found(scanned(tmp_path, {"srt/x.py": source}), "sglang/srt/x.py") == []


def test_the_resolver_that_nextn_goes_through_is_followed_into_another_file(tmp_path: Path) -> None:
    package = scanned(
        tmp_path,
        {
            "srt/a.py": "def f(args):\n    if args.speculative_algorithm:\n        args.speculative_algorithm = resolve(args.speculative_algorithm)",
            "srt/b.py": "def resolve(speculative_algorithm):\n    if speculative_algorithm == 'NEXTN':\n        return 'EAGLE'\n    return speculative_algorithm",
        },
    )
    returned = {(s["line"], s["class"]) for s in package.sites if s["file"] == "sglang/srt/b.py"}
    assert returned == {(3, "alias"), (4, "copy")}


def test_resolvers_are_followed_through_each_other_and_into_files_that_do_not_name_the_setting(
    tmp_path: Path,
) -> None:
    package = scanned(
        tmp_path,
        {
            "srt/a.py": "def f(args):\n    args.speculative_algorithm = first(args.speculative_algorithm)",
            "srt/b.py": "def first(speculative_algorithm):\n    return second(speculative_algorithm)",
            "srt/c.py": "def second(name):\n    return 'EAGLE' if name is None else name",
        },
    )
    assert found(package, "sglang/srt/b.py") == ["alias"]
    assert found(package, "sglang/srt/c.py") == ["activation"]


def test_a_resolver_that_answers_for_the_unasked_is_an_activation(tmp_path: Path) -> None:
    package = scanned(
        tmp_path,
        {
            "srt/a.py": "def f(args):\n    args.speculative_algorithm = resolve(args.speculative_algorithm)",
            "srt/b.py": "def resolve(speculative_algorithm):\n    if speculative_algorithm is None:\n        return 'EAGLE'",
        },
    )
    assert found(package, "sglang/srt/b.py") == ["activation"]


def test_tests_and_benchmarks_are_set_apart_unless_the_server_imports_them(tmp_path: Path) -> None:
    on = "def f(args):\n    args.speculative_algorithm = 'EAGLE'"
    files = {
        "test/runner.py": on,
        "benchmark/hook.py": on,
        "srt/launch.py": "from sglang.benchmark import hook",
    }
    server = {site["file"]: site["server"] for site in scanned(tmp_path, files).sites}
    assert server == {"sglang/test/runner.py": False, "sglang/benchmark/hook.py": True}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("srt/models/qwen.yaml", "speculative_algorithm: EAGLE"),
        ("srt/models/qwen.json", '{"speculative-algorithm": "NEXTN"}'),
        ("srt/run.sh", "python -m sglang.launch_server --speculative-algorithm NEXTN"),
    ],
)
def test_data_files_of_the_package_are_read_too(tmp_path: Path, name: str, text: str) -> None:
    assert found(scanned(tmp_path, {name: text}), f"sglang/{name}") == ["activation"]


def test_what_cannot_be_read_is_said_and_not_passed_over(tmp_path: Path) -> None:
    package = scanned(tmp_path, {"srt/broken.py": "def f(:\n    x.speculative_algorithm = 1"})
    (tmp_path / "sglang" / "core.so").write_bytes(b"\x7fELF speculative_algorithm")
    package = Package().scan(str(tmp_path / "sglang"))
    assert {item["file"] for item in package.unread} == {"sglang/srt/broken.py", "sglang/core.so"}


def test_a_package_without_the_setting_makes_the_scan_blind(tmp_path: Path) -> None:
    scanned(
        tmp_path,
        {"__init__.py": "", "srt/server_args.py": "class ServerArgs:\n    spec_algo: str | None = None"},
    )
    assert installation.scan(LocalHost(), path=str(tmp_path / "sglang")).blind


def test_a_wheel_is_read_without_unpacking(tmp_path: Path) -> None:
    wheel = tmp_path / "sglang-0.5.99-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sglang/__init__.py", "")
        archive.writestr("sglang/_version.py", "__version__ = version = '0.5.99'\ncommit_id = 'gdeadbee'\n")
        archive.writestr("sglang/srt/x.py", "def f(a):\n    a.speculative_algorithm = 'EAGLE'\n")
    found = installation.scan(LocalHost(), path=str(wheel))
    assert (found.installation.version, found.installation.commit) == ("0.5.99", "deadbee")
    assert [(site.file, site.line) for site in found.activations] == [("sglang/srt/x.py", 2)]
