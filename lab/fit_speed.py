"""Learn the factors of the speed prediction, and say how far off it is on devices that it has not seen.

python -m lab.fit_speed                 prints the error of each group, every device predicted without its own rows
python -m lab.fit_speed --write         also writes src/unslow/catalog/speed/learned.toml
python -m lab.fit_speed --csv OUT.csv   also writes the table with those predictions, for a scorer
python -m lab.fit_speed --host          learns only what CPUs take; what GPUs take stays as it is, and so do their
                                        intervals: devices left out are known by what is held
python -m lab.fit_speed --served        learns only what vLLM takes, and judges it by thirds of its runs left out
"""

import argparse
import collections
import csv
import sys
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from lab.h200_speed.questions import DEVICE
from lab.speed.own import BATCHED, own_rows
from lab.speed.priors import all_factors, prior_of
from lab.speed.processors import processor_rows
from lab.speed.served import load_ratios, served_rows
from lab.speed.solver import fitted, predicted
from lab.speed.table import DATA, Measured, measured, read_rows, terms_of

from unslow.catalog.learned_speed import LearnedSpeed, Spread, learned_speed
from unslow.facts.values import Unknown
from unslow.think.physics.terms import total_of_terms
from unslow.think.speed.rows import CPU, PARTIAL, PREFILL, group_of, parse_row

CATALOG = Path(__file__).parents[1] / "src/unslow/catalog/speed/learned.toml"
SCARCE = (PARTIAL, CPU, BATCHED)
"""Groups of which trusted rows are too few to learn an interval from."""
FEWEST = 4
NEGLIGIBLE = 0.005
THIRDS = 3


def is_of_host(name: str) -> bool:
    """Whether a factor is of the time that a CPU takes."""
    return "/cpu" in name or "product/runtime/" in name


def is_of_hosts(m: Measured) -> bool:
    """Whether a CPU computed all of it, or a part."""
    return m.group == PARTIAL or m.backend == "cpu"


def as_toml(learned: LearnedSpeed) -> str:
    """The text of the file."""
    lines = [f"made_by = {_quoted(learned.made_by)}", f"measurements = {_quoted(learned.measurements)}", ""]
    lines += ["[chips]", *(f"{_quoted(k)} = {msgspec.json.encode(v).decode()}" for k, v in learned.chips.items()), ""]
    lines += ["[factors]", *(f"{_quoted(k)} = {round(v, 4)}" for k, v in sorted(learned.factors.items())), ""]
    for name, spread in sorted(learned.spreads.items()):
        fields: dict[str, Any] = msgspec.structs.asdict(spread)
        lines += [f"[spreads.{_quoted(name)}]", *(f"{k} = {round(v, 4)}" for k, v in fields.items()), ""]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def logs_without(
    rows: list[Measured], logs: dict[str, float], held: dict[str, float] | None = None
) -> dict[str, dict[str, float]]:
    """For each device, the factors that were learned without it."""
    devices = sorted({m.device for m in rows})
    found = {}
    for i, device in enumerate(devices):
        print(f"\r{i + 1} of {len(devices)} devices left out in turn ", end="", file=sys.stderr, flush=True)
        found[device] = fitted([m for m in rows if m.device != device], logs, held, free=None)
    print(file=sys.stderr)
    return found


def left_out(rows: list[Measured], without: dict[str, dict[str, float]]) -> list[float]:
    """Predicted over measured speed of each row, from factors that were learned without its device."""
    ratios = [1.0] * len(rows)
    for device, logs in without.items():
        own = [i for i, m in enumerate(rows) if m.device == device]
        times = predicted([rows[i] for i in own], logs)
        for i, seconds in zip(own, times, strict=True):
            ratios[i] = rows[i].seconds / float(seconds)
    return ratios


def write_predictions(path: Path, without: dict[str, dict[str, float]], learned: LearnedSpeed) -> None:
    """The table with a prediction for each row, from factors that were learned without its device."""
    rows = read_rows(DATA / "measurements.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, [*rows[0], "predicted_tok_s", "predicted_low", "predicted_high"])
        out.writeheader()
        for row in rows:
            out.writerow(row | _prediction(row, without, learned))


def _prediction(row: dict[str, str], without: dict[str, dict[str, float]], learned: LearnedSpeed) -> dict[str, str]:
    found = parse_row(row)
    if isinstance(found, Unknown) or found.conversations > 1 or not (terms := terms_of(found)):
        return {}
    logs = without.get(found.device.name, learned.factors)
    rate = 1 / float(
        total_of_terms(terms, {f.name: logs.get(f.name, prior_of(f.name).mean) for t in terms for f in t.factors})
    )
    spread = learned.spread(group_of(found), found.backend)
    return {
        "predicted_tok_s": f"{rate:.4g}",
        "predicted_low": f"{rate * spread.low:.4g}",
        "predicted_high": f"{rate * spread.high:.4g}",
    }


def of_device(own: list[Measured], logs: dict[str, float]) -> dict[str, float]:
    """What only our own device deviates in: it is newer than most of the table, and was measured more closely."""
    shared = {name: log for name, log in logs.items() if not name.endswith(f"/{DEVICE}")}
    found = fitted(own, held=shared)
    return {name: log for name, log in found.items() if name not in shared}


def report(rows: list[Measured], ratios: list[float], title: str) -> None:
    """A line for each group."""
    print(title)
    for trusted in (True, False):
        groups: dict[str, list[float]] = collections.defaultdict(list)
        for m, ratio in zip(rows, ratios, strict=True):
            if m.is_trusted or not trusted:
                groups[m.group].append(ratio)
        for group, some in sorted(groups.items()):
            off = np.abs(np.array(some) - 1)
            print(
                f"  {'trusted' if trusted else 'all':8} {group:16} {len(some):5} median error {np.median(off):6.1%}"
                f"  p90 {np.quantile(off, 0.9):7.1%}  bias {np.median(some):.2f}"
            )


def spreads(rows: list[Measured], ratios: list[float]) -> dict[str, Spread]:
    """Between which factors of the prediction four of five measurements lie, by group and by backend."""
    found: dict[str, list[tuple[str, float]]] = collections.defaultdict(list)
    for m, ratio in zip(rows, ratios, strict=True):
        counts = m.is_trusted or m.group in SCARCE
        if counts or m.backend == "cpu":  # of which trusted rows are few in every group
            for name in (m.group, f"{m.group}/{m.backend}") if counts else (f"{m.group}/{m.backend}",):
                found[name].append((m.device, 1 / ratio))
    return {
        name: _spread(some) for name, some in found.items() if "/" not in name or len({d for d, _ in some}) >= FEWEST
    }


def _spread(some: list[tuple[str, float]]) -> Spread:
    low, high = np.quantile([r for _, r in some], [0.1, 0.9])
    off = float(np.median([abs(1 / r - 1) for _, r in some]))
    return Spread(min(1.0, float(low)), max(1.0, float(high)), len(some), len({d for d, _ in some}), off)


def written(rows: list[Measured], logs: dict[str, float], ratios: list[float]) -> LearnedSpeed:
    """What is learned, with every factor that any backend may be asked for."""
    factors = {name: prior_of(name).mean for name in all_factors()} | logs
    families: dict[str, set[str]] = collections.defaultdict(set)
    for m in rows:
        families[m.backend].add(m.family)
    return LearnedSpeed(
        made_by="lab/fit_speed.py",
        measurements=_counted(rows),
        factors={name: log for name, log in factors.items() if abs(log) > NEGLIGIBLE or name.count("/") <= 1},
        spreads=spreads(rows, ratios),
        chips={backend: sorted(f for f in some if f) for backend, some in sorted(families.items())},
    )


def _counted(rows: list[Measured]) -> str:
    return f"{len(rows)} configurations on {len({m.device for m in rows})} devices"


def with_hosts(known: LearnedSpeed, held: dict[str, float], hosts: LearnedSpeed) -> LearnedSpeed:
    """What was known, with what was learned anew of CPUs."""
    anew = {name: log for name, log in hosts.factors.items() if is_of_host(name)}
    chips = known.chips | {"cpu": hosts.chips["cpu"]}
    spreads = known.spreads | {name: s for name, s in hosts.spreads.items() if name == CPU or name.endswith("/cpu")}
    if PARTIAL in hosts.spreads and PARTIAL in spreads:  # the GPUs of these were not left out: it may only widen
        spreads[PARTIAL] = _wider(spreads[PARTIAL], hosts.spreads[PARTIAL])
    return msgspec.structs.replace(known, factors=held | anew, chips=chips, spreads=spreads)


def _wider(a: Spread, b: Spread) -> Spread:
    return msgspec.structs.replace(
        b, low=min(a.low, b.low), high=max(a.high, b.high), median_error=max(a.median_error, b.median_error)
    )


def is_of_served(name: str) -> bool:
    """Whether a factor is of an engine that serves many."""
    return name.startswith("served ")


def learned_of_served() -> LearnedSpeed:
    """What was known, with what vLLM takes learned anew; what is left out of its runs is predicted from the others."""
    known, own = learned_speed(), served_rows()
    held = {name: log for name, log in known.factors.items() if not is_of_served(name)}
    table = [
        m for m in measured(read_rows(DATA / "measurements.csv"))
        if any(is_of_served(factor.name) for term in m.terms for factor in term.factors)
    ]  # fmt: skip
    folds: dict[str, Callable[[int, str], Hashable]] = {
        "a third of the runs left out at a time": lambda i, _name: i % THIRDS,
        "every model with its type of weights left out in turn": lambda _i, name: name,
    }
    for title, fold_of in folds.items():
        ratios, loads = [1.0] * len(own), list[float]()
        for fold in {fold_of(i, m.source): None for i, m in enumerate(own)}:
            out = [i for i, m in enumerate(own) if fold_of(i, m.source) == fold]
            logs = held | fitted([*table, *(m for i, m in enumerate(own) if i not in out)], held=held, free=None)
            for i, seconds in zip(out, predicted([own[i] for i in out], logs), strict=True):
                ratios[i] = own[i].seconds / float(seconds)
            loads += [ratio for i, (name, ratio) in enumerate(load_ratios(logs)) if fold_of(i, name) == fold]
        report(own, ratios, f"vLLM on an H200, {title}")
        for group in sorted({m.group for m in own}):
            spread = known.spread(group, "cuda")
            inside = [spread.low <= 1 / r <= spread.high for m, r in zip(own, ratios, strict=True) if m.group == group]
            print(f"  {group:16} {np.mean(inside):.0%} of {len(inside)} lie inside the interval")
        off = [abs(ratio - 1) for ratio in loads]
        print(f"  throughput at a load: median error {np.median(off):.1%}, largest {max(off):.1%} of {len(off)}")
    logs = fitted([*table, *own], held=held, free=None)
    report(
        table,
        [m.seconds / float(t) for m, t in zip(table, predicted(table, logs), strict=True)],
        "published, in sample",
    )
    priors = {name: prior_of(name).mean for name in all_factors() if is_of_served(name)}
    return msgspec.structs.replace(known, factors=held | priors | {n: v for n, v in logs.items() if is_of_served(n)})


def main() -> None:
    """Learn, report, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--csv", type=Path, help="where to write the table with predictions of left-out devices")
    parser.add_argument("--quick", action="store_true", help="only the fit, no device left out")
    parser.add_argument("--host", action="store_true", help="only what CPUs take")
    parser.add_argument("--served", action="store_true", help="only what vLLM takes")
    args = parser.parse_args()
    if args.quick and (args.write or args.csv):
        parser.error("without leaving devices out there are no honest intervals to write")
    if args.served:
        learned = learned_of_served()
        if args.write:
            CATALOG.write_text(as_toml(learned), "utf-8")
        return
    own = [*own_rows(), *served_rows()]
    table = measured(read_rows(DATA / "measurements.csv"))
    rows = [*table, *(m for m in own if m.group != PREFILL), *processor_rows()]
    known = learned_speed() if args.host else None
    held = {name: log for name, log in known.factors.items() if not is_of_host(name)} if known else None
    every = _counted(rows)
    rows = [m for m in rows if is_of_hosts(m)] if known else rows
    print(len(rows), "configurations,", len({m.device for m in rows}), "devices")
    logs = fitted(rows, held=held, free=None)
    ratios = [m.seconds / float(t) for m, t in zip(rows, predicted(rows, logs), strict=True)]
    report(rows, ratios, "in sample")
    without = {} if args.quick else logs_without(rows, logs, held)
    if without:
        ratios = left_out(rows, without)
        report(rows, ratios, "every device left out")
    if known and held is not None:
        learned = with_hosts(known, held, written(rows, logs, ratios))
    else:
        logs |= of_device(own, logs)
        learned = written(rows, logs, ratios)
    learned = msgspec.structs.replace(learned, measurements=every)
    if args.write:
        CATALOG.write_text(as_toml(learned), "utf-8")
    if args.csv:
        write_predictions(args.csv, without, learned)


if __name__ == "__main__":
    main()
