"""Outputs that no single command line gives without a server: kept reports drawn again, and what programs ask for."""

import contextlib
import itertools
import json
import re
import tarfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import anyio
import msgspec
from mcp import Client
from tests.golden.files import Outputs
from tests.golden.running import ROOT, WIDTH, printed

from unslow.commands._bench_history import compare_with
from unslow.commands._output import Silent
from unslow.facts.bench import parse_bench
from unslow.fleet.actions import Fleet, report_on
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.report import FleetReport
from unslow.fleet.settings import FleetSettings
from unslow.fleet.show import render_fleet
from unslow.mcp.server import server_for
from unslow.mcp.tools import Permissions
from unslow.show.bench import render_bench
from unslow.show.tune import render_tune
from unslow.show.verify import render_verify
from unslow.think.stats.changes import BenchResult
from unslow.think.stats.tuning import TuneReport
from unslow.think.stats.verification_report import VerifyReport

BENCHES = ROOT / "tests" / "benches"
BENCHED = sorted(path.stem for path in BENCHES.glob("*.json"))
COMPARED = [
    ("h200_after", "h200_standard"), ("h200_kv_on_host", "h200_standard"), ("h200_standard", "h200_shared"),
    ("h200_seen_whole_depth", "h200_seen_spilled_depth"), ("h200_vram_taken", "h200_standard"),
]  # fmt: skip
"""Benchmarks, each with the one that it is held against."""
VERIFIED = [
    "tests/verified/h200_seen.json",
    "lab/data/plan_gpu_whole/verify.json",
    "docs/examples/tutorial_verify.json",
]
TUNED = "lab/data/plan_gpu_whole/tune.json"
FLEET = "docs/examples/fleet.json"
Render = Callable[..., str]
_CHANGE = re.compile(r"\b\d{8}-\d{6}-\w{4}\b")
"""The id of a change, which tells its time."""
_INODE = re.compile(r'(?<="inode":")[\d:]+|(?<="inode": ")[\d:]+')
_NOT_READY = '<meta http-equiv="refresh"'


def rendered(render: Render, report: object) -> Outputs:
    """A report as a terminal shows it and as JSON."""
    forms = {"text": "terminal", "json": "json"}
    return {kind: render(report, form, width=WIDTH, color=False) + "\n" for kind, form in forms.items()}


def bench(name: str, _: Path, against: str = "") -> Outputs:
    """A kept benchmark, alone or held against another."""
    read = parse_bench((BENCHES / f"{name}.json").read_bytes(), name)
    compared = compare_with(read, f"tests/benches/{against}.json") if against else None
    return rendered(render_bench, BenchResult(read, compared=compared))


def history(_: Path) -> Outputs:
    """Benchmarks that are kept, listed and forgotten."""
    kept = [f"tests/benches/{name}.json" for name in ("h200_standard", "h200_after", "h200_users")]
    kept += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/look/bench/llama_bench").glob("*.json"))
    texts = [printed("bench", "--import", path) for path in kept] + [printed("bench", "--list")]
    return {"text": "".join(texts), "json": printed("bench", "--list", "--json")}


def kept(kind: type, render: Render, path: str, _: Path) -> Outputs:
    """A report that a command wrote, read and drawn again."""
    return rendered(render, msgspec.json.decode((ROOT / path).read_bytes(), type=kind))


def predicted_table(_: Path) -> Outputs:
    """A table of measurements, every sixtieth row."""
    head, *rows = (ROOT / "lab" / "data" / "measurements.csv").read_text("utf-8").splitlines()
    return {"text": printed("predict", "--csv", "-", stdin="\n".join([head, *rows[::60]]) + "\n")}


def models(home: Path) -> Outputs:
    """Models in folders, found by their headers."""
    with tarfile.open(ROOT / "tests" / "look" / "models" / "stores" / "stores.tar.gz") as archive:
        archive.extractall(home, filter="data")
    with contextlib.chdir(home):  # names of folders are cut to their ends
        words = ("models", "ggufs", "hf")
        return {
            "text": printed(*words) + printed(*words, "--all"),
            "json": _INODE.sub("<inode>", printed(*words, "--json")),
        }


def fleet(_: Path) -> Outputs:
    """A made-up fleet in which one GPU is hot, one cache too small and one engine unknown."""
    from tests.fleet_members import gpu, member

    hot = gpu(clock_hz=0.75e9, thermal_throttled=0.8, temperature_max_c=91.0)
    preempts = member(preemptions=400.0, cache_used=0.97, waiting=6.0, queue_s=4.0, first_token_s=4.3)
    told = {"a": member(), "b": member(hot, token_gap_s=0.03), "c": preempts, "d": member(about={"model": "inhouse"})}
    members = [msgspec.structs.replace(one, key=key) for key, one in told.items()]
    url = "http://127.0.0.1:9090"
    asked = Fleet(members, (), url, 1_763_290_800.0, 31)
    report = report_on(asked, FleetSettings(Access(url=url), workers=1), Silent(), 0.0)
    forms = {"text": ("terminal", "markdown", "openmetrics"), "json": ("json",)}
    report = msgspec.structs.replace(report, seconds=1.0)
    return {
        kind: "".join(render_fleet(report, form, width=WIDTH, color=False) + "\n" for form in some)
        for kind, some in forms.items()
    }


def applied(home: Path) -> Outputs:
    """A model derived through Ollama's API: shown, made, listed and taken back."""
    from lab.replay import serve
    from tests.plans import option, plan, written

    settings = option("short and mapped", context_length=8192, load_mode="none")
    with serve("ollama") as url:
        journal = ("--journal", str(home / "journal"))
        common = ("apply", written(home, plan("ollama", "qwen3:8b", settings)), "--target", url, *journal)
        texts = [printed(*common, "--dry-run"), printed(*common, "--yes")]
        texts += [printed("undo", *words, *journal) for words in (["--list"], ["--yes"], ["--yes"])]
        shown = {"text": "".join(texts), "json": printed(*common, "--dry-run", "--json")}
    address = url.removeprefix("http://")
    return {kind: _CHANGE.sub("<id>", text.replace(address, "<address>")) for kind, text in shown.items()}


@cache
def generated() -> dict[str, str]:
    """What is generated for programs: schemas and the OpenAPI document, by their names."""
    from docs._build.generate import ROOT as FOLDER
    from docs._build.generate import reference as files

    own = itertools.takewhile(lambda one: one[0].is_relative_to(FOLDER), files())
    return {path.name: text for path, text in own if path.suffix == ".json"}


def reference(name: str, _: Path) -> Outputs:
    """One of them."""
    return {"json": generated()[name]}


def tools(_: Path) -> Outputs:
    """What `unslow mcp` lists, with and without changes allowed, and some of its answers."""
    card = {"model": "qwen3-8b", "quant": "Q4_K_M", "device": "RTX 3060", "ram": "64GB"}
    calls = {
        "diagnose": {"target": "tests/machines/h200_llama_server_gpu_layers_set_too_low"},
        "triage": {"text": "ollama ps says 48%/52% CPU/GPU for qwen3:32b, it is slow: 7 tokens/s"},
        "fit": {**card, "context": "16k"},
        "explain": {"cause": "cpu_contended"},
        "check": {"claim": "Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s"},
    }

    async def asked() -> dict[str, object]:
        found: dict[str, object] = {}
        async with Client(server_for(Permissions(measure=False, apply=True))) as client:
            found["all"] = [tool.model_dump(mode="json") for tool in (await client.list_tools()).tools]
        async with Client(server_for(Permissions(measure=False))) as client:
            found["instructions"] = client.instructions
            found["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            for name, words in calls.items():
                found[f"call {name}"] = (await client.call_tool(name, words)).model_dump(mode="json")
        return found

    return {"json": json.dumps(anyio.run(asked), indent=1, ensure_ascii=False)}


def served(target: str, paths: tuple[str, ...], _: Path) -> Outputs:
    """The page of `unslow serve` and answers of its API."""
    from tests.page.server.page_server import serving

    with serving(target) as page:
        while _NOT_READY in (opened := page.open().text):
            time.sleep(0.02)
        texts = [opened, *(f"{path}\n{page.get(path).text}\n" for path in paths)]
        text = "\n".join(texts).replace(page.own.token, "<token>")
    return {"html": re.sub(r'nonce[-="]+[\w+/=-]+', "<nonce>", text)}


KEPT: dict[str, dict[str, tuple[str, Callable[[Path], Outputs]]]] = {
    "bench": {
        **{name: (f"tests/benches/{name}.json", partial(bench, name)) for name in BENCHED},
        **{f"{a}-against-{b}": (f"{a} --compare {b}", partial(bench, a, against=b)) for a, b in COMPARED},
        "history": ("bench --import FILE, --list", history),
    },
    "verify": {Path(path).stem: (path, partial(kept, VerifyReport, render_verify, path)) for path in VERIFIED},
    "tune": {"tune": (TUNED, partial(kept, TuneReport, render_tune, TUNED))},
    "predict_csv": {"table": ("predict --csv - (every 60th row of lab/data/measurements.csv)", predicted_table)},
    "models": {"folders": ("models FOLDER", models)},
    "fleet": {
        "kept": (FLEET, partial(kept, FleetReport, render_fleet, FLEET)),
        "four": ("a made-up fleet of four", fleet),
    },
    "apply": {"ollama": ("apply plan.json --target OLLAMA, then undo", applied)},
    "mcp": {"tools": ("the tools of unslow mcp", tools)},
    "serve": {
        "slow": ("the page of unslow serve", partial(
            served, "tests/machines/h200_llama_server_gpu_layers_set_too_low",
            ("/report", "/view", "/causes", "/subjects/0/what-if"))),
        "cpu": ("the page of unslow serve", partial(served, "tests/machines/lab_cpu_threads_too_many", ("/report",))),
    },
    "reference": {
        path.name: (f"docs/reference/{path.name}", partial(reference, path.name))
        for path in sorted((ROOT / "docs" / "reference").glob("*.json"))
    },
}  # fmt: skip
"""Cases by verb and name: what a person may recognise them by, and how they are computed."""
