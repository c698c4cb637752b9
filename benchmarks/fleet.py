"""How long a generated fleet takes to judge, with how much memory, in how many queries, and whether it is right.

python benchmarks/fleet.py 1000 10000       both, and how the time grows from one to the other
python benchmarks/fleet.py 10000 --queries  the queries alone, without the judgement

Needs prometheus. The series of the fleet (lab/fleet/generated.py) are sent to a real Prometheus on loopback, which
takes a minute or two for ten thousand instances; then `unslow fleet` runs as a process of its own against it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.fleet.generated import send_fleet
from lab.fleet.memory import Watched, cpu_s, peak_bytes
from lab.fleet.processes import end, end_well_when_told
from lab.fleet.prometheus import RECEIVES, Prometheus, program, started
from lab.fleet.scoring import Score, score

GOAL_S = 60.0
GOAL_BYTES = 2e9
_FLAGS = (*RECEIVES, "--query.timeout=5m")


class Result(NamedTuple):
    """One fleet."""

    instances: int
    series: int
    written_s: float
    seconds: float
    bytes: float
    """The most that the program and its workers held at one moment."""
    server_bytes: float
    cpu_s: float
    """Of processors, in the program and its workers; on a machine that others use this tells more than the clock."""
    server_cpu_s: float
    queries: int
    report: dict[str, Any]
    score: Score | None


def main() -> int:
    """Measure each size; 0 where every goal is met, 1 where one is not, 2 where it could not run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", type=int, nargs="+")
    parser.add_argument("--queries", action="store_true", help="the queries alone")
    parser.add_argument("--save", type=Path, help="the figures, as the documentation reads them")
    parser.add_argument("--keep", type=Path, help="a folder for the last report, as report.json")
    given = parser.parse_args()
    end_well_when_told()
    try:
        server = program()
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    results = [_measured(number, server, given) for number in given.instances]
    if given.save and not given.queries:
        given.save.write_text(json.dumps([_figures(one) for one in results], indent=1) + "\n", encoding="utf-8")
    return 0 if given.queries or _verdict(results) else 1


def _measured(number: int, server: Path, given: argparse.Namespace) -> Result:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with started(server, folder, flags=_FLAGS) as prometheus:
            began = time.monotonic()
            series = send_fleet(number, prometheus.url, folder, time.time())
            written_s = time.monotonic() - began
            print(f"\n{number} instances, {series} series, written in {written_s:.0f} s", flush=True)
            if given.queries:
                return _only_queries(number, series, written_s, prometheus)
            result = _judged(number, series, written_s, prometheus, folder)
    _show(result)
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
        (given.keep / "report.json").write_text(json.dumps(result.report), encoding="utf-8")
    return result


def _judged(number: int, series: int, written_s: float, prometheus: Prometheus, folder: Path) -> Result:
    before, server_before = prometheus.counted(), cpu_s(prometheus.pid)
    asked = ["fleet", "--prometheus", prometheus.url, "--compare", "none", "--json"]
    out = folder / "report.json"
    with out.open("wb") as file:
        began = time.monotonic()
        process = subprocess.Popen([sys.executable, "-m", "unslow", *asked], stdout=file, stderr=subprocess.PIPE)
        try:
            with Watched(process.pid) as own:
                _, errors = process.communicate()
        finally:
            end(process)
        seconds = time.monotonic() - began
    if process.returncode == 2:
        raise SystemExit(f"unslow fleet could not run: {errors.decode()[-2000:]}")
    report = json.loads(out.read_bytes())
    known = json.loads((folder / "truth.json").read_bytes())
    return Result(
        number, series, written_s, seconds, own.most_bytes, peak_bytes(prometheus.pid),
        sum(own.used_s.values()), cpu_s(prometheus.pid) - server_before,
        prometheus.counted() - before, report, score(known, report["instances"]),
    )  # fmt: skip


def _figures(result: Result) -> dict[str, Any]:
    """What is kept of a measurement: everything but the report."""
    kept = {name: value for name, value in result._asdict().items() if name not in ("report", "score")}
    told = result.score
    return kept | ({"named_share": told.named_share, "false_share": told.false_share} if told else {})


def _only_queries(number: int, series: int, written_s: float, prometheus: Prometheus) -> Result:
    """Every query once, the slowest first."""
    from unslow.fleet.prometheus.client import Prometheus as Client  # noqa: PLC0415
    from unslow.fleet.prometheus.connection import Access  # noqa: PLC0415 (where the judgement is not there)
    from unslow.fleet.queries import Options, all_queries  # noqa: PLC0415

    client, took = Client(Access(url=prometheus.url)), []
    for query in all_queries(Options(compare_s=0)):
        began = time.monotonic()
        answered = client.instant(query.promql)
        took.append((time.monotonic() - began, query.name, len(answered.series), answered.failure))
    for seconds, name, count, failure in sorted(took, reverse=True):
        print(f"  {seconds:6.2f} s  {count:7d} series  {name} {failure}")
    total = sum(one[0] for one in took)
    used = cpu_s(prometheus.pid)
    print(f"  {total:6.1f} s for {len(took)} queries; Prometheus held {peak_bytes(prometheus.pid) / 1e9:.2f} GB")
    return Result(number, series, written_s, total, 0.0, peak_bytes(prometheus.pid), 0.0, used, len(took), {}, None)


def _show(result: Result) -> None:
    own = result.report
    print(f"  {result.seconds:6.1f} s       goal {GOAL_S:.0f} s; {own['seconds']:.1f} s by its own clock")
    print(f"  {result.cpu_s:6.1f} s       of processors by the program, {result.server_cpu_s:.1f} s by Prometheus")
    print(f"  {result.bytes / 1e9:6.2f} GB      goal {GOAL_BYTES / 1e9:.0f} GB, all its processes together")
    print(f"  {result.server_bytes / 1e9:6.2f} GB      held by Prometheus itself at most")
    print(f"  {result.queries:6d} queries  counted by Prometheus; the report says {own['queries']}")
    print(f"  verdicts {own['verdicts']}, complete: {own['complete']}")
    for statement in own["statements"]:
        print(f"  said: {statement['kind']}: {statement['text'][:150]}")
    if result.score:
        print(result.score.shown())


def _verdict(results: list[Result]) -> bool:
    """Whether the goals are met; each that is not is said."""
    missed = Counter[str]()
    for one in results:
        missed["seconds"] += one.seconds > GOAL_S
        missed["memory"] += one.bytes > GOAL_BYTES
        missed["faults named"] += bool(one.score and one.score.named_share < 0.9)
        missed["healthy ones called slow"] += bool(one.score and one.score.false_share > 0.01)
    first, last = results[0], results[-1]
    missed["constant queries"] += first.queries != last.queries
    if last.instances > first.instances:
        growth, times = last.seconds / first.seconds, last.instances / first.instances
        print(f"\n{times:.0f} times the instances take {growth:.1f} times the time")
        missed["linear time"] += growth > times
    said = ", ".join(name for name, number in missed.items() if number)
    print(f"missed: {said}" if said else "every goal is met")
    return not said


if __name__ == "__main__":
    sys.exit(main())
