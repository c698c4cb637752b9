"""Every case: a verb, a name, the command that it stands for, and how its outputs are computed."""

import contextlib
import hashlib
import json
import shlex
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.golden import commands
from tests.golden.files import Outputs
from tests.golden.others import KEPT
from tests.golden.running import ROOT, WIDTH, printed

import unslow

MACHINES = ROOT / "tests" / "machines"
REPORTS = ROOT / "lab" / "data" / "reports"
UNSEEN = "seventh"
"""The set of reports that nobody shall look at: of its answers only hashes are stored."""
SHARED = ("diagnose",)
"""Verbs that are compared where the same reports are tested anyway: in `tests/test_machines.py`."""


class Case(NamedTuple):
    """What is computed, given a home folder that is empty; the title says how a person gets the same."""

    title: str
    compute: Callable[[Path], Outputs]


def of_command(line: str, kinds: str = "text json", stdin: str = "") -> Case:
    """A command line, as a terminal shows it and as JSON; or what it writes for another program, as a `file`."""
    words = shlex.split(line)
    extra = {"json": ("--json",)}

    def compute(_: Path) -> Outputs:
        return {kind: printed(*words, *extra.get(kind, ()), stdin=stdin) for kind in kinds.split()}

    return Case(f"unslow {line}", compute)


def of_report(line: str, kind: type[msgspec.Struct]) -> Case:
    """A command that computes a report: run once for its JSON, whose text is drawn from that."""
    words = shlex.split(line)

    def compute(_: Path) -> Outputs:
        whole = printed(*words, "--json")
        data, ended = whole[: whole.rindex("}") + 1], whole[whole.rindex("}") + 2 :]
        return {"json": whole, "text": f"{unslow.to_text(msgspec.json.decode(data, type=kind), width=WIDTH)}\n{ended}"}

    return Case(f"unslow {line}", compute)


def reports(kind: str, lines: Iterable[str]) -> dict[str, Case]:
    """Command lines by numbers, whose JSON is read as the type of that name."""
    return {f"{number:02}": of_report(line, getattr(unslow, kind)) for number, line in enumerate(lines, 1)}


def named(lines: Iterable[str], kinds: str = "text json") -> dict[str, Case]:
    """Command lines by numbers: two lines that change places are two differences."""
    return {f"{number:02}": of_command(line, kinds) for number, line in enumerate(lines, 1)}


@cache
def diagnosed(machine: str) -> unslow.Report:
    """The report on a recorded machine: once for all tests of a process that want it."""
    with contextlib.chdir(ROOT):
        return unslow.diagnose(f"tests/machines/{machine}")


def shown(report: unslow.Report) -> Outputs:
    """A report as text and as JSON."""
    return {"text": unslow.to_text(report, width=WIDTH) + "\n", "json": unslow.to_json(report) + "\n"}


def diagnose() -> dict[str, Case]:
    """Every recorded machine."""
    folders = sorted(path.parent.name for path in MACHINES.glob("*/expected.toml"))
    return {name: of_machine(name) for name in folders}


def of_machine(name: str) -> Case:
    """One recorded machine."""
    return Case(f"unslow diagnose tests/machines/{name}", lambda _: shown(diagnosed(name)))


def triage() -> dict[str, Case]:
    """Every kept report of other people, of the unseen set as hashes alone."""
    cases = {}
    for path in sorted(REPORTS.glob("*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            name = f"{path.stem}-{number:03}"
            title = f"triage of line {number} of lab/data/reports/{path.name}"
            cases[name] = Case(title, partial(_of_report, json.loads(line), hashed=path.stem == UNSEEN))
    return cases


def _of_report(report: dict[str, object], _: Path, *, hashed: bool) -> Outputs:
    from lab.check_triage import visible

    outputs = shown(unslow.triage(visible(report)))
    if not hashed:
        return outputs
    return {"text": "".join(f"{kind} {hashlib.sha256(text.encode()).hexdigest()}\n" for kind, text in outputs.items())}


def colors() -> dict[str, Case]:
    """Some outputs as a terminal with colours shows them."""
    lines = dict(enumerate(commands.COLORED, 1))
    return {
        f"{n:02}": Case(f"unslow {line}", partial(_in_colors, tuple(shlex.split(line)))) for n, line in lines.items()
    }


def _in_colors(words: tuple[str, ...], _: Path) -> Outputs:
    return {"text": printed(*words, colors=True)}


def explain() -> dict[str, Case]:
    """The list of causes, and every page."""
    pages = sorted(page.id for page in unslow.causes())
    return {"list": of_command("explain")} | {name: of_command(f"explain {name}", "text") for name in pages}


def helps() -> dict[str, Case]:
    """`--help` of every command."""
    each = {name: of_command(f"{name} --help", "text") for name in commands.COMMANDS}
    return {"unslow": of_command("--help", "text")} | each


def pages() -> dict[str, Case]:
    """The page of some machines, as one file of HTML and as the JSON that it is drawn from."""
    cases = {}
    for name, more in commands.PAGES.items():
        words = shlex.split(f"report tests/machines/{name} -q -o - {more}")
        cases[name] = Case(f"unslow {shlex.join(words)}", partial(_page, tuple(words)))
    return cases


def _page(words: tuple[str, ...], _: Path) -> Outputs:
    return {kind: printed(*words, "--format", kind) for kind in ("html", "json")}


def pastes() -> dict[str, Case]:
    """Pasted texts and logs through the command."""
    logs = [f"tests/machines/{name}/server.log" for name in commands.LOGGED]
    kept = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests" / "app" / "pastes").glob("*.txt"))]
    lines = [f"triage {path}" for path in (*kept, *logs)] + commands.PASTED
    return named(lines)


def _kept(verb: str) -> dict[str, Case]:
    return {name: Case(title, compute) for name, (title, compute) in KEPT[verb].items()}


VERBS: dict[str, Callable[[], dict[str, Case]]] = {
    "help": helps,
    "diagnose": diagnose,
    "diagnose_command": partial(named, commands.DIAGNOSED, "text"),
    "triage": triage,
    "paste": pastes,
    "fit": partial(reports, "FitReport", commands.FIT),
    "fit_list": partial(named, commands.LISTED),
    "report": partial(named, commands.REPORTED, "text"),
    "predict": partial(reports, "PredictionReport", commands.PREDICT),
    "plan": partial(reports, "PlanReport", commands.PLAN),
    "devices": partial(reports, "DevicesReport", commands.DEVICES),
    "choose": partial(reports, "ChoiceReport", commands.CHOOSE),
    "cost": partial(reports, "CostReport", commands.COST),
    "tiers": partial(reports, "TiersReport", commands.TIERS),
    "check": partial(reports, "CheckReport", [f"check {shlex.quote(claim)}" for claim in commands.CLAIMS]),
    "explain": explain,
    "errors": partial(named, commands.ERRORS, "text"),
    "colors": colors,
    "page": pages,
    "collect": partial(named, commands.COLLECTED, "file"),
    "fleet_command": partial(named, commands.FLEET, "file"),
} | {verb: partial(_kept, verb) for verb in KEPT}
