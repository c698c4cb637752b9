"""Writes the reference under docs/reference from the code; with --check it only tells whether that is up to date."""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import fill

import msgspec
from docs._build.buying import buying_blocks, shipped_prices
from docs._build.exporter_series import metrics_table, series_table, sizes_table
from docs._build.facts_page import facts_page
from docs._build.figures import answers
from docs._build.fleet_causes import causes_table, counts_sentence
from docs._build.fleet_pages import benchmark_table, capacity_table, example
from docs._build.flow_page import followed_line
from docs._build.program_reference import python_page, tools_page
from docs._build.stub import stub
from lab import ollama_cost, quality
from lab.check_triage import REPORTS, answered, read_reports, score
from lab.engines import table as engines_table
from lab.faults.every import places
from lab.faults.rows import read_rows, table, totals
from lab.fit_speed import learned_of_served
from lab.plan_gpu import table as plans
from lab.plan_gpu.sheet import read_rows as read_plan_rows
from lab.verify_cpu import read_rows as read_verified_rows
from lab.verify_cpu import table as verified

from unslow.buy.cost import CostReport
from unslow.buy.offers import ChoiceReport
from unslow.buy.report import DevicesReport
from unslow.buy.tiers import TiersReport
from unslow.catalog.learned_speed import learned_speed
from unslow.catalog.quality import Figure, Row, Table, cache_exceptions, tables
from unslow.commands._command_lines import with_fix_commands
from unslow.commands._dispatch import command_parser, commands, top_help
from unslow.commands._formats import render
from unslow.commands.diagnose.target import read_stored
from unslow.commands.explain import causes
from unslow.commands.fit import FitRequest, fit_model
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import make_plan
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.speeds import answer as predict
from unslow.commands.triage.pasted_text import read_text_source, triage
from unslow.facts.bench import Bench, parse_bench
from unslow.facts.calibration import Calibration
from unslow.facts.snapshot import Snapshot
from unslow.facts.stored_model import Inventory
from unslow.fleet.capacity.report import CapacityReport
from unslow.fleet.dashboard import alert_blocks, fleet_files
from unslow.fleet.report import FleetReport
from unslow.live.tick import Tick
from unslow.look.system.live import LiveSystem
from unslow.page.server.application import openapi
from unslow.page.view import View
from unslow.show.bench import render_bench
from unslow.show.explain import page_markdown
from unslow.show.fit import render_fit
from unslow.show.plan import render_plan
from unslow.show.predict import render_predict
from unslow.show.tune import render_tune
from unslow.show.units import rate, size, span
from unslow.show.verify import render_verify
from unslow.think.change import ApplyReport, UndoReport
from unslow.think.claims.report import CheckReport
from unslow.think.fit.report import FitReport
from unslow.think.judge.judge import diagnose
from unslow.think.plan.report import PlanReport
from unslow.think.report import Report
from unslow.think.speed.report import PredictionReport
from unslow.think.stats.changes import BenchComparison, BenchResult
from unslow.think.stats.tuning import TuneReport
from unslow.think.stats.verification_report import VerifyReport

DOCS = Path(__file__).parents[1]
ROOT = DOCS / "reference"
BY_HAND = {ROOT / "glossary.md"}
"""Pages of the reference that are not generated."""
README = DOCS.parent / "README.md"
PHYSICS = DOCS / "explanation" / "physics.md"
ENGINES = DOCS / "explanation" / "engines.md"
TUTORIAL = DOCS / "tutorial.md"
HOW_SURE = DOCS / "explanation" / "how_sure.md"
MEMORY_WALL = DOCS / "explanation" / "memory_wall.md"
PREDICT = DOCS / "how_to" / "predict.md"
FIT = DOCS / "how_to" / "fit.md"
PLAN = DOCS / "how_to" / "plan.md"
TRIAGE = DOCS / "how_to" / "triage.md"
EXAMPLE = DOCS / "examples" / "report.txt"
BENCH = DOCS / "how_to" / "bench.md"
BUY = DOCS / "how_to" / "buy.md"
EXPORTER = DOCS / "how_to" / "exporter.md"
FLEET = DOCS / "how_to" / "fleet.md"
JUDGED_FLEET = DOCS / "explanation" / "fleet.md"
ALERTS = DOCS / "how_to" / "alerts.md"
DEPLOYED = DOCS.parent / "deploy" / "prometheus"
FLEET_DEPLOY = DOCS / "how_to" / "fleet_deploy.md"
PRICES = DOCS / "explanation" / "prices.md"
QUESTIONS = DOCS / "questions"
MEASURING = DOCS / "explanation" / "measuring.md"
DIAGNOSIS = DOCS / "explanation" / "diagnosis.md"
FLOW = DOCS / "explanation" / "flow.md"
QUALITY = DOCS / "explanation" / "quality.md"
PLAN_RESULTS = DOCS / "explanation" / "plan_results.md"
FAULTS = DOCS.parent / "lab" / "data" / "faults"
BENCHED = DOCS.parent / "tests" / "benches" / "h200_standard.json"
PROVED = DOCS.parent / "lab" / "data" / "bench"
WHOLE = DOCS.parent / "lab" / "data" / "plan_gpu_whole"
LOG_SPEED = DOCS.parent / "lab" / "data" / "triage_log.txt"
ORDER = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
"""Files of reports: those that were looked at, then those that were only scored."""
SHOWN = DOCS.parent / "tests" / "machines" / "h200_llama_server_ngl_28"
SLOWED = DOCS.parent / "tests" / "machines" / "lab_cpu_threads_too_many"
TUTORED = DOCS / "examples" / "tutorial_verify.json"
"""What `unslow verify` wrote in the steps of the tutorial."""
ONE_ROUND = re.compile(r"round |answer \d+ of|\s*\d+ (?:greedy|usual) | +\d+% minute|    the long prompts")
"""Lines that only tell how it went on."""
PRINTED = {
    "near the server": "check_llama_bench_gpu.txt",
    "near llama-bench": "check_llama_bench_cpu.txt",
    "observer gpu": "observer_gpu.txt",
    "observer cpu": "observer_cpu.txt",
    "noise gpu": "noise_gpu.txt",
    "noise cpu": "noise_cpu.txt",
    "turns": "turns_cpu.txt",
    "endurance": "endurance.txt",
}
"""What scripts of the lab printed, by its place on the page."""
SCHEMAS: dict[str, type] = {
    "report": Report, "snapshot": Snapshot, "view": View, "fit": FitReport, "plan": PlanReport, "models": Inventory,
    "prediction": PredictionReport, "check": CheckReport, "calibration": Calibration, "bench": Bench,
    "verify": VerifyReport, "tune": TuneReport, "apply": ApplyReport, "undo": UndoReport, "watch": Tick,
    "devices": DevicesReport, "choice": ChoiceReport, "cost": CostReport, "tiers": TiersReport,
    "fleet": FleetReport, "capacity": CapacityReport, "comparison": BenchComparison,
}  # fmt: skip
"""What programs read, by the word in its schema string."""
COMMANDS = {
    "report": "unslow diagnose", "snapshot": "unslow collect", "view": "unslow report", "prediction": "unslow predict",
    "choice": "unslow choose", "capacity": "unslow fleet capacity", "comparison": "unslow bench --compare",
}  # fmt: skip
"""What writes it, where the word is another."""
NOTE = "<!-- Generated by `make docs`: change the code, not this page. -->\n\n"


def reference() -> Iterator[tuple[Path, str]]:
    """Every generated file and its text."""
    for page in causes():
        yield ROOT / "causes" / f"{page.id}.md", NOTE + page_markdown(page) + "\n"
    rows = [f"| [`{p.id}`](causes/{p.id}.md) | {p.title} | {p.phase} |" for p in causes()]
    yield ROOT / "causes.md", NOTE + "# Causes\n\n| id | what it is | phase |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    yield ROOT / "command_line.md", NOTE + command_line()
    yield ROOT / "python.md", NOTE + python_page()
    yield ROOT / "facts.md", NOTE + facts_page()
    yield ROOT / "tools.md", NOTE + tools_page()
    yield ROOT / "openapi.json", openapi()
    yield ROOT / "schemas.md", NOTE + schema_page()
    yield from ((ROOT / f"{name}.schema.json", schema(kind)) for name, kind in SCHEMAS.items())
    yield DOCS.parent / "src" / "unslow" / "__init__.pyi", stub()
    yield TUTORIAL, with_blocks(TUTORIAL, tutorial_block())
    yield MEMORY_WALL, with_blocks(MEMORY_WALL, {"walls": walls_block(), "explain": explain_block()})
    yield PREDICT, with_blocks(PREDICT, {"predict": predict_block()})
    yield PLAN, with_blocks(PLAN, {"plan": plan_block("lab_gpu_stranger_leaves_4_gib")})
    yield README, with_blocks(README, {"report": top_block()})
    yield FIT, with_blocks(FIT, {"fit": fit_block()})
    yield (
        TRIAGE,
        with_blocks(TRIAGE, {"triage": triage_block(), "triage accuracy": accuracy(), "triage log": log_speed()}),
    )
    yield BENCH, with_blocks(BENCH, {"bench": bench_block()})
    yield MEASURING, with_blocks(MEASURING, {name: lab_output(file) for name, file in PRINTED.items()})
    tables = {f"lab {where}": faults_block(where) for where in ("gpu", "cpu")}
    yield DIAGNOSIS, with_blocks(DIAGNOSIS, tables | {"lab first": first_run_totals(), "lab real": real_runtimes_block()})
    yield FLOW, with_blocks(FLOW, followed_line())
    yield QUALITY, with_blocks(QUALITY, quality_blocks())
    yield PHYSICS, with_blocks(PHYSICS, {"errors": errors_block(), "h200": h200_block()})
    of_ollama = ollama_cost.table(ollama_cost.read_rows(ollama_cost.MEASURED))
    tables = {"engines": engines_table(), "served": served_block(), "ollama": f"```text\n{of_ollama}\n```"}
    yield ENGINES, with_blocks(ENGINES, tables, fenced=False)
    yield HOW_SURE, with_blocks(HOW_SURE, {"errors": errors_block()})
    yield BUY, with_blocks(BUY, buying_blocks())
    yield PRICES, with_blocks(PRICES, shipped_prices())
    yield EXPORTER, with_blocks(EXPORTER, {"metrics": metrics_table()}, fenced=False)
    yield FLEET, with_blocks(FLEET, {"fleet": example()})
    told = {"fleet causes": f"{counts_sentence()}\n\n{causes_table()}"}
    told |= {"fleet size": benchmark_table(), "fleet capacity": capacity_table()}
    yield JUDGED_FLEET, with_blocks(JUDGED_FLEET, told, fenced=False)
    yield ALERTS, with_blocks(ALERTS, alert_blocks(), fenced=False)
    yield from ((DEPLOYED / name, text) for name, text in fleet_files().items())
    yield FLEET_DEPLOY, with_blocks(FLEET_DEPLOY, {"series": series_table(), "sizes": sizes_table()}, fenced=False)
    for name, said in answers():
        asked = QUESTIONS / f"{name}.md"
        yield asked, with_blocks(asked, {"answer": said.words, "figures": said.figures}, fenced=False)
    yield PLAN_RESULTS, with_blocks(PLAN_RESULTS, plans_block() | {"verify cpu": verified(read_verified_rows())})


def bench_block() -> str:
    """A benchmark that was made on an H200, as a person sees it."""
    bench = parse_bench(BENCHED.read_bytes(), BENCHED.name)
    return render_bench(BenchResult(bench), "terminal", width=100, color=False)


def quality_blocks() -> dict[str, str]:
    """What quantising costs: as published, who is an exception, and as it was measured with a trained model."""
    measured = quality.table(quality.read_rows(quality.MEASURED))
    return {"exceptions": exceptions_block(), "figures": figures_block(), "measured": measured}


def exceptions_block() -> str:
    """The models that lose more by a quantised cache, and who says so."""
    warnings = cache_exceptions().items()
    return "\n".join(fill(f"{name}: {warning.words}", 118) + f"\n  {warning.source}" for name, warning in warnings)


def figures_block() -> str:
    """Every published measurement of what quantising costs."""
    return "\n\n".join(map(figures_of, tables().values()))


def figures_of(measured: Table) -> str:
    """One table of them under its source."""
    head = f"{measured.model}, {measured.date}: {measured.source}"
    found = [Figure(measured, row) for row in measured.rows]
    rows = (f"  {row_label(f.row):24}{share(f.increase):>10}  {nats(f.kl)}" for f in found)
    return "\n".join([head, *(row.rstrip() for row in rows)])


def row_label(row: Row) -> str:
    """What was quantised, and how."""
    what = row.quant or f"cache {row.keys or 'f16'}/{row.values or 'f16'}"
    return what + " matrix" * row.matrix + " rotated" * row.rotated


def share(increase: float | None) -> str:
    """An increase in percent."""
    return "" if increase is None else f"{increase:+.2%}"


def nats(divergence: float | None) -> str:
    """A KL divergence."""
    return "" if divergence is None else f"KL {divergence:.5f}"


def faults_block(where: str) -> str:
    """What the lab injected, what was diagnosed, and what the cure gave."""
    return table(read_rows(FAULTS / f"{where}.jsonl"))


def plans_block() -> dict[str, str]:
    """What plans gained against llama.cpp's own fit, what memory they took, and two sweeps beside them."""
    rows = read_plan_rows(plans.DATA)
    swept = {f"plan sweep {name}": plans.sweep_table(rows, name) for name in ("8b", "moe")}
    gained = {"plan gpu": plans.table(rows), "plan memory": plans.memory_table(rows)}
    return {**gained, **swept, **whole_block()}


def whole_block() -> dict[str, str]:
    """A plan that was verified and tuned on the H200, as a person sees it."""
    verdict = msgspec.json.decode((WHOLE / "verify.json").read_bytes(), type=VerifyReport)
    tuned = msgspec.json.decode((WHOLE / "tune.json").read_bytes(), type=TuneReport)
    return {
        "plan verify": render_verify(verdict, "terminal", width=118, color=False),
        "plan tune": render_tune(tuned, "terminal", width=118, color=False),
    }


def first_run_totals() -> str:
    """What the lab came to when its faults were played for the first time."""
    rows = {where: read_rows(FAULTS / f"{where}_first.jsonl") for where in ("gpu", "cpu")}
    return "\n\n".join("\n".join([f"{where}:", *totals(found)]) for where, found in rows.items())


def real_runtimes_block() -> str:
    """Right first causes and normal controls of each runtime of lab/real: at first, by today's code, on fresh cases."""
    lines = [f"{'runtime':12} {'':7} {'right cause first':>18} {'controls normal':>16}"]
    for where in places():
        for when in ("first", "now", "fresh", "fresh 2", "fresh 3", "fresh 4"):
            suffix = "" if when == "now" else f"_{when.replace(' ', '_')}"
            path = FAULTS / f"{where}{suffix}.jsonl"
            if where in ("cpu", "gpu") or not path.is_file():
                continue
            rows = [row for row in read_rows(path) if not row.skipped]
            faults, healthy = [r for r in rows if r.cause], [r for r in rows if not r.cause]
            right, clean = sum(r.right for r in faults), sum(r.right and not r.diagnosed for r in healthy)
            lines.append(f"{where:12} {when:7} {f'{right} of {len(faults)}':>18} {f'{clean} of {len(healthy)}':>16}")
    return "\n".join(lines)


def lab_output(name: str) -> str:
    """What a script of the lab printed when it was last run, without the rounds that led there."""
    path = PROVED / name
    text = path.read_text("utf-8") if path.exists() else "not measured yet"
    lines = text.replace("\r", "\n").splitlines()
    kept = [line.rstrip() for line in lines if not ONE_ROUND.match(line)]
    return "\n".join(kept)


def with_blocks(path: Path, texts: Mapping[str, str], *, fenced: bool = True) -> str:
    """The file with the texts between their two marks replaced, as they were printed or as Markdown."""
    page = path.read_text("utf-8")
    for name, text in texts.items():
        head, start, rest = page.partition(f"<!-- {name}:")
        note, arrow, rest = rest.partition("-->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        block = f"```text\n{text.strip()}\n```" if fenced else fill_words(text)
        page = head + start + note + arrow + f"\n{block}\n\n" + end + tail
    return page


def fill_words(text: str) -> str:
    """Prose in lines of the usual width; tables and printed texts stay as they are."""
    return text if text.startswith(("|", "```")) else fill(text, 140, break_long_words=False, break_on_hyphens=False)


def errors_block() -> str:
    """How far off predictions are on devices that were left out, by group and backend."""
    head = f"{'group/backend':26}{'configurations':>15}{'devices':>9}{'median error':>14}{'interval':>17}{'width':>7}"
    rows = [
        f"{name:26}{s.configurations:15}{s.devices:9}{s.median_error:14.1%}{f'{s.low:.2f} to {s.high:.2f}':>17}"
        f"{s.high / s.low:7.2f}"
        for name, s in sorted(learned_speed().spreads.items())
    ]
    return "\n".join([head, *rows])


def served_block() -> str:
    """How well vLLM is predicted, a third of its runs left out at a time."""
    with redirect_stdout(StringIO()) as said:
        learned_of_served()
    return f"```text\n{said.getvalue().strip()}\n```"


def h200_block() -> str:
    """What was predicted for an H200, and what was measured then."""
    sys.path.insert(0, str(DOCS.parent))
    from lab.h200_speed.figures import compared, figures  # noqa: PLC0415  the lab is no part of the package

    data = DOCS.parent / "lab" / "data"
    blocks = []
    for number in ("", "_2"):
        said = tomllib.loads((data / f"h200_speed_predictions{number}.toml").read_text("utf-8"))["predictions"]
        lines = compared(list(figures(data / f"h200_speed_measured{number}.jsonl")), said)
        blocks.append("\n".join([f"{'run':50} {'predicted':>9} {'measured':>9}", *lines]))
    return "\n\n".join(blocks)


def report_block(machine: Path = SHOWN) -> str:
    """The report of a recorded machine as a terminal shows it."""
    snapshot = read_stored(str(machine))
    return render(with_fix_commands(diagnose(snapshot), snapshot), "terminal", width=100, color=False)


def top_block() -> str:
    """The verdict, the summary and the causes of that report."""
    return "\n\n".join(report_block().split("\n\n")[:3])


def tutorial_block() -> dict[str, str]:
    """What a person sees in the steps of the tutorial."""
    verdict = msgspec.json.decode(TUTORED.read_bytes(), type=VerifyReport)
    proved = render_verify(verdict, "terminal", width=100, color=False)
    rows = [row for row in read_verified_rows() if row["change"] == "threads: 4 times the cores"]
    return {"report": report_block(SLOWED), "lab": verified(rows), "verify": proved}


def fit_block() -> str:
    """The answer for a well-known model as a terminal shows it."""
    flags = {"model": "llama-3.3-70b", "quant": "Q4_K_M", "devices": ["RTX 4090"]}
    return render_fit(fit_model(LiveSystem(), FitRequest.from_flags(flags)), "terminal", width=100, color=False)


def prediction_of(**flags: object) -> PredictionReport:
    """The prediction of one case."""
    return predict(LiveSystem(), PredictRequest.from_flags({**flags, "devices": [flags["device"]]}))


def triage_block() -> str:
    """What `unslow triage` prints for the example report."""
    with read_text_source(str(EXAMPLE)) as source:
        report = triage(source.chunks, source.name).report
    return render(report, "terminal", width=100, color=False, everything=False)


def accuracy() -> str:
    """How triage does on the real reports of the lab."""
    scores = {path.stem: score(map(answered, read_reports(path))) for path in sorted(REPORTS.glob("*.jsonl"))}
    head = f"{'reports':10}{'number':>8}{'named':>8}{'right of named':>16}{'right of decidable':>20}{'held back':>12}"
    rows = [
        f"{name:10}{s.reports:8}{s.named:8}{s.precision:16.0%}{s.found:20.0%}{s.held_back:12.0%}"
        for name, s in sorted(scores.items(), key=lambda item: ORDER.index(item[0]))
    ]
    return "\n".join([head, *rows])


def log_speed() -> str:
    """The table that benchmarks/triage_log.py wrote when it was run last."""
    return LOG_SPEED.read_text("utf-8")


def predict_block() -> str:
    """A prediction as a terminal shows it."""
    report = prediction_of(model="llama-3.3-70b", quant="Q4_K_M", device="RTX 4090")
    return render_predict(report, "terminal", width=100, color=False)


def plan_block(machine: str) -> str:
    """A plan for a recorded machine as a terminal shows it, up to what it was chosen among."""
    report = make_plan(LiveSystem(), PlanRequest(model=str(DOCS.parent / "tests" / "machines" / machine)))
    return render_plan(report, "terminal", width=100, color=False).partition("\nWhy not\n")[0]


def explain_block() -> str:
    """The memory wall of one case as a terminal shows it."""
    report = prediction_of(model="qwen3-8b", quant="Q6_K", device="RTX 5090", explain=True)
    return render_predict(report, "terminal", width=100, color=False)


def walls_block() -> str:
    """Two models on two devices, side by side."""
    models, devices = (("qwen3-8b", "Q6_K"), ("smollm2-135m", "IQ4_XS")), ("RTX 5090", "H200")
    columns = [walls_column(model, quant, device) for model, quant in models for device in devices]
    names = list(dict.fromkeys(name for column in columns for name in column))
    return "\n".join(f"{name:22}" + "".join(f"{column.get(name, '-'):>19}" for column in columns) for name in names)


def walls_column(model: str, quant: str, device: str) -> dict[str, str]:
    """One case in the rows of the comparison."""
    case = {"model": model, "quant": quant, "device": device}
    report = prediction_of(**case)
    if report.decode is None or report.prefill is None:
        raise SystemExit(report.reason)
    speed = report.decode.tokens_per_s
    column = {"model": report.model.name, "quant": quant, "device": device, "weights": size(report.model.weights_bytes)}
    column |= {
        "ceiling, tok/s": rate(report.decode.ceiling_tokens_per_s or 0),
        "predicted": rate(speed.mid),
        "80 % interval": f"{rate(speed.low)} to {rate(speed.high)}",
    }
    column |= {f"  {wall.part}": f"{span(wall.seconds)}, {wall.share:.0%}" for wall in report.decode.walls}
    column["without CUDA graphs"] = decode_rate(**case, graphs=False)
    column |= {f"{n} conversations": decode_rate(**case, batch=str(n)) for n in (4, 8, 32)}
    for prompt in (16, 512):
        read = prediction_of(**case, prompt=str(prompt)).prefill
        column[f"prompt of {prompt}"] = rate(read.tokens_per_s.mid) if read else "-"
    return column


def decode_rate(**flags: object) -> str:
    """The tokens per second of all conversations of a case."""
    speed = prediction_of(**flags).decode
    return rate(speed.tokens_per_s.mid) if speed else "-"


def command_line() -> str:
    """The help of every command, at a fixed width."""
    blocks = [("unslow", top_help())]
    blocks += [(f"unslow {name}", command_parser(name).format_help()) for name in commands()]
    return "# Command line\n\n" + "\n".join(f"## `{name}`\n\n```text\n{text}```\n" for name, text in blocks)


def schema_page() -> str:
    """What programs read, and who writes it."""
    rows = [
        f"| [`unslow.{name}/{version(kind)}`]({name}.schema.json) | `{COMMANDS.get(name, f'unslow {name}')} --json` |"
        for name, kind in sorted(SCHEMAS.items())
    ]
    head = "# Schemas\n\nFields are only added within a version; `schema` in each answer names its own.\n\n"
    page = "The page's JSON API is described by [openapi.json](openapi.json): [how to use it](../how_to/serve.md).\n"
    return head + "| schema | written by |\n|---|---|\n" + "\n".join(rows) + "\n\n" + page


def version(kind: type) -> str:
    """The number at the end of its schema string."""
    default = next(field.default for field in msgspec.structs.fields(kind) if field.encode_name == "schema")
    return str(default).rpartition("/")[2]


def schema(kind: type) -> str:
    """The JSON schema of a type."""
    return (
        msgspec.json.format(msgspec.json.encode(msgspec.json.schema(kind), order="deterministic"), indent=2).decode()
        + "\n"
    )


def main() -> int:
    """Write, or compare."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--check", action="store_true", help="change nothing; fail where a file is out of date")
    check = flags.parse_args().check
    wanted = dict(reference())
    present = {p for p in ROOT.rglob("*") if p.is_file()} if ROOT.exists() else set()
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text("utf-8") != text]
    orphans = sorted(present - wanted.keys() - BY_HAND)
    if check:
        for path in [*stale, *orphans]:
            print(f"out of date: {path.relative_to(DOCS.parent)} (run `make docs`)")
        return bool(stale or orphans)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], "utf-8")
    for path in orphans:
        path.unlink()
    print(f"{len(stale)} written, {len(orphans)} removed, {len(wanted)} in all")
    return 0


if __name__ == "__main__":
    import os

    os.environ["COLUMNS"] = "100"  # argparse wraps help to the terminal; the reference must not depend on it
    sys.exit(main())
