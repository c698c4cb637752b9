"""What a fleet did over a day, as moments of groups of like instances: a constant number of range queries."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from unslow.catalog.prometheus import Exporter, exporters_of
from unslow.fleet.capacity.limits import InstanceGroup, Load, Moment, quantile
from unslow.fleet.labels import shown_label
from unslow.fleet.member import Member
from unslow.fleet.prometheus.answers import Curve
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.queries import Options, Query, fill_expression, fold_series
from unslow.fleet.report import Statement
from unslow.fleet.snapshot_hardware import gpus_of
from unslow.fleet.snapshots import snapshot_of
from unslow.fleet.summary import names_with_counts
from unslow.think.case.view import views_of

MOST_POINTS = 300_000  # Of one answer, over all its series: some 10 MB of JSON
MOST_PER_SERIES = 10_000  # Prometheus refuses more than 11,000 points of a series
WINDOW_S = 60.0  # At a scrape each 15 s, which is usual
SHORTEST_WINDOW_S = 15.0
LONGEST_WINDOW_S = 300.0  # A longer window mixes loads that were not there at the same time
SCRAPES = 4  # In a window: two make a rate, and now and then one is missed
FEWEST_MOMENTS = 12  # That are looked at, however many instances there are
FEWEST_TOKENS = 20.0  # In a window: the gaps of fewer tell no speed
FEWEST_REQUESTS = 0.01  # At once, in the mean of a window: of less there are no tokens
SHORTEST_GAP_S, LONGEST_GAP_S = 1e-6, 1e4  # Between two tokens: nothing real is outside of it
FEWEST_SPREAD = 3  # Instances from which on it makes sense to say that some have more to do than others
LARGEST = 1e12  # Of any value: what is larger, below nought or no number at all was not measured
_BUSIEST, _FULLEST = 0.9, 0.9
"""Moments with more to do than nine of ten, and the instances that have more than nine of ten."""
_BESIDE = ("uneasy", "tokens_per_s", "gap_s", "first_token_s", "waiting", "cache_used")
_MEAN, _SPREAD = "avg_over_time(", "stddev_over_time("
_TELLING = (
    ("cluster", "namespace", "pod", "job", "instance"),
    ("cluster", "namespace", "pod", "instance"),
    ("namespace", "pod", "instance"),
    ("job", "instance"),
    ("instance",),
)
"""Labels that tell a target from the others, the most telling first: those of fewer only where they are enough."""
Step = Callable[[str, float], None]  # Is told what is being done, and how much of it is done
Row = list[float | None]  # A value for each moment of the grid; None where there was none


class Grid(NamedTuple):
    """The moments that were asked for: each tells of the window before it."""

    start_s: float
    step_s: float
    points: int
    window_s: float

    @property
    def end_s(self) -> float:
        return self.start_s + self.step_s * (self.points - 1)

    def row(self, curve: Curve) -> Row:
        row: Row = [None] * self.points
        for time_s, value in zip(curve.times_s, curve.values, strict=True):
            place = round((time_s - self.start_s) / self.step_s)
            if 0 <= place < self.points and 0 <= value <= LARGEST:
                row[place] = value
        return row


class Curves(NamedTuple):
    """Groups of like instances, and what a reader must know before trusting them."""

    likes: list[InstanceGroup]
    statements: tuple[Statement, ...]


def read_curves(
    prometheus: Prometheus, members: Sequence[Member], options: Options, span_s: float, step: Step
) -> Curves:
    """Ask for every curve, and put it together by instance and group; `step` is told what is being read."""
    grid = grid_of(prometheus.now_s, span_s, members)
    rows: dict[str, dict[str, Row]] = {member.key: {} for member in members}
    whose, queries = CurveOwners(members), curve_queries(options, grid.window_s)
    for place, query in enumerate(queries):
        step(f"reading {query.why}", place / len(queries))
        answer = prometheus.curves(query.promql, grid.start_s, grid.end_s, grid.step_s, query.name)
        for curve in answer.curves:
            if key := whose.key(curve.labels):
                rows[key].setdefault(query.name, grid.row(curve))
    said = []
    if grid.step_s > 1.5 * grid.window_s:
        share = grid.window_s / grid.step_s
        text = f"sampled {grid.points} windows of {grid.window_s:.0f} s per instance, {share:.0%} of the time"
        said.append(Statement(kind="note", text=text, hint="--match selects fewer instances, --span a shorter time"))
    if whose.unmatched:
        text = "left out series of instances that no longer exist"
        said.append(Statement(kind="note", text=text, instances=len(whose.unmatched)))
    known = [row["running"] for row in rows.values() if "running" in row]
    first = next((n for n in range(grid.points) if any(row[n] is not None for row in known)), None)
    if first is not None and first * grid.step_s > span_s / 4:
        gone = f"{first * grid.step_s / 3600:.1f} of {span_s / 3600:.1f} h"
        said.append(Statement(kind="note", text=f"Prometheus has no data for the first {gone}"))
    groups: dict[tuple[str, str, str], list[Member]] = {}
    for member in members:
        devices = names_with_counts(gpu.name for gpu in gpus_of(member))
        groups.setdefault((member.runtime, member.model, devices), []).append(member)
    return Curves([_instance_group(kind, those, rows, grid) for kind, those in groups.items()], tuple(said))


def grid_of(now_s: float, span_s: float, members: Sequence[Member]) -> Grid:
    """Moments over the span: as many as one answer may hold, and no closer together than their windows."""
    scrapes = [(member.window_s, member.engine["samples"].value) for member in members if "samples" in member.engine]
    every = [window_s / samples for window_s, samples in scrapes if samples] or [SHORTEST_WINDOW_S]
    window = min(LONGEST_WINDOW_S, max(SHORTEST_WINDOW_S, SCRAPES * statistics.median(every)), span_s)
    most = min(MOST_PER_SERIES, max(FEWEST_MOMENTS, MOST_POINTS // max(1, len(members))))
    count = max(1, min(most, int(span_s / window)))
    step = max(window, span_s / count)
    return Grid(now_s - step * (count - 1), step, count, window)


def curve_queries(options: Options, window_s: float) -> tuple[Query, ...]:
    """All of them, each value taken over a window, one series for each target."""
    matchers, taken_s = options.matchers(engines=True), max(1.0, round(window_s))

    def ways(one: Exporter, reading: str) -> list[str]:
        """Its expressions, the first that answers holds; ranks and copies of a model are put together."""
        fold, *texts = one.readings.get(reading, ("",))
        return [fold_series(fill_expression(text, matchers, taken_s), fold, one.own, one.same) for text in texts]

    def values(reading: str) -> str:
        """A reading of whichever engine tells it."""
        return " or ".join(way for one in exporters_of("engine").values() for way in ways(one, reading))

    def ratios(above: str, below: str) -> str:
        """One reading for each of another; a window without any has no answer."""
        return " or ".join(
            f"({most} / ({least} > 0))"
            for one in exporters_of("engine").values()
            for most, least in zip(ways(one, above), ways(one, below), strict=True)
        )

    gaps = f"{ratios('token_gap_s_sum', 'token_gap_s_count')} or {ratios('decode_busy_s', 'decode_tokens')}"
    firsts = ratios("first_token_s_sum", "first_token_s_count")
    asked = (
        ("running", values("running"), "running requests"),
        ("uneasy", values("running").replace(_MEAN, _SPREAD), "how much that varies within a window"),
        ("waiting", values("waiting"), "waiting requests"),
        ("cache_used", values("cache_used"), "KV cache usage"),
        ("tokens_per_s", values("generated_tokens_per_s"), "generated tokens"),
        ("gap_s", gaps, "time between tokens of one request"),
        ("first_token_s", firsts, "time to first token"),
    )
    return tuple(Query(name, "capacity", promql, why) for name, promql, why in asked)


class CurveOwners:
    """Finds the member that a curve belongs to."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.unmatched: set[tuple[str, ...]] = set()  # Targets whose curves belong to nobody, or to more than one
        self._by_labels: list[dict[tuple[str, ...], str]] = [{} for _ in _TELLING]
        for names, known in zip(_TELLING, self._by_labels, strict=True):
            for member in members:
                told = _label_values(member.labels, names)
                known[told] = "" if told in known else member.key  # of two alike, neither is found this way

    def key(self, labels: dict[str, str]) -> str:
        """The key of the member; empty where it is nobody's, which is kept."""
        shown = {name: shown_label(labels[name]) for name in _TELLING[0] if labels.get(name)}
        for names, known in zip(_TELLING, self._by_labels, strict=True):
            if any(name in shown for name in names) and (key := known.get(_label_values(shown, names))):
                return key
        self.unmatched.add(_label_values(shown, _TELLING[0]))
        return ""


def _label_values(labels: dict[str, str], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in names)


def _instance_group(
    kind: tuple[str, str, str], members: Sequence[Member], rows: Mapping[str, Mapping[str, Row]], grid: Grid
) -> InstanceGroup:
    runtime, model, devices = kind
    known = [rows[member.key] for member in members]
    places = [m.engine["places"].value for m in members if "places" in m.engine]
    telling = max(members, key=lambda member: (len(member.engine), len(member.info), len(member.gpus)))
    return InstanceGroup(
        runtime=runtime,
        model=model,
        devices=devices,
        instances=len(members),
        gpus_each=len(gpus_of(members[0])) or None,
        moments=tuple(moment for those in known for moment in moments_of(those, grid.window_s)),
        load=load_of([those["running"] for those in known if "running" in those]),
        places=min(places) if places else None,
        case=next(views_of(snapshot_of(telling)), None),
        without="" if any("running" in those for those in known) else "running requests over time are unknown",
    )


def moments_of(rows: Mapping[str, Row], window_s: float) -> Iterator[Moment]:
    """The moments of one instance in which it made enough tokens to tell their speed; `rows` by names of queries."""
    running = rows.get("running")
    if running is None:  # not answered, or told by nobody: without it no speed has a load
        return
    nothing: Row = [None] * len(running)
    others = (rows.get(name, nothing) for name in _BESIDE)
    for requests, uneasy, tokens, gap, first, waiting, cache in zip(running, *others, strict=True):
        if not requests or requests < FEWEST_REQUESTS or not tokens or tokens * window_s < FEWEST_TOKENS:
            continue
        # where nothing tells the gap, Little's law does: requests at once over what they get together
        gap_s = gap or requests / tokens
        if SHORTEST_GAP_S <= gap_s <= LONGEST_GAP_S:
            until_first = first if first and first >= SHORTEST_GAP_S else None
            yield Moment(requests_per_step(requests, uneasy), gap_s, until_first, waiting, cache)


def requests_per_step(requests: float, uneasy: float | None) -> float:
    """How many requests a token shared its step with, in the mean over tokens.

    More tokens are made while there are more requests, so their mean is above that over time, by the variance.
    """
    return max(1.0, requests + (uneasy or 0.0) ** 2 / requests)


def load_of(running: Sequence[Row]) -> Load:
    """Requests at once of a group, over the moments in which any of it was seen."""
    seen = [[value for value in column if value is not None] for column in zip(*running, strict=True)]
    sums = [sum(column) for column in seen if column]
    if not sums:
        return Load()
    least = quantile(sorted(sums), _BUSIEST)
    busy = [column for column in seen if len(column) >= FEWEST_SPREAD and sum(column) >= max(least, 1.0)]
    uneven = sorted(quantile(sorted(column), _FULLEST) * len(column) / sum(column) for column in busy)
    return Load(sum(sums) / len(sums), max(sums), quantile(uneven, 0.5) if uneven else None)
