"""A cold start against warm ones: how long the model takes to load from the disk, and how long when it lies in memory.

For the cold start the pages of the model's files are dropped from memory, of these files and no others, which needs no
rights; whether they are gone is looked up. Nothing is dropped while another process has a file mapped.
"""

from unslow.commands.bench.bencher import BenchWish
from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits
from unslow.commands.bench.sweeps._trials import OUT_OF_TIME, answer_or_retry
from unslow.facts.bench import LOAD, Sweep, SweepPoint
from unslow.facts.errors import UserError
from unslow.look.bench.page_cache import drop_pages, read_cached_share, read_disk_speed, read_users
from unslow.look.bench.timing import run_delay
from unslow.look.kernel import parse_numbers
from unslow.look.system import LookError, read_text
from unslow.think.stats.load_times import Start, judge_load
from unslow.think.stats.repeats import spread_of

AXIS = "load"
OWN_SERVER = True

WARM_STARTS = 2
GONE = 0.02  # The share of a file that may be left in memory where it counts as cold
DISK_S = 3.0
_TOKENS = 16


def sweep(own: Own, limits: Limits) -> Sweep:
    """The verdict on loading; what was measured until Ctrl-C is judged as well."""
    cold: list[Start] = []
    warm: list[Start] = []
    disk: list[float] = []  # Bytes per second
    no_cold = stopped = ""
    try:
        no_cold = _cold(own, cold, disk)
        stopped = _warm(own, limits, warm)
    except KeyboardInterrupt:
        own.interrupted, stopped = True, "stopped by the user"
    judged = judge_load(next(iter(cold), None), warm, own.file_bytes(), next(iter(disk), None))
    points = []
    for at, (label, starts) in enumerate((("cold", cold), ("warm", warm))):
        if starts:
            last = starts[-1]
            disk_rate = last.read_bytes / last.load_s if last.read_bytes and last.load_s > 0 else None
            known = {
                "disk_read_bytes": last.read_bytes,
                "disk_read_bytes_per_s": disk_rate,
                "waited_for_cpu_s": last.waited_s,
                "first_request_s": last.first_s,
                "later_request_s": last.later_s,
            }
            seen = {name: value for name, value in known.items() if value is not None}
            figures = {LOAD: spread_of([start.load_s for start in starts])}
            points.append(SweepPoint(at=at, label=label, figures=figures, seen=seen))
    return Sweep(
        axis=AXIS,
        points=tuple(points),
        verdict=judged.verdict,
        because=f"{judged.because}: {no_cold}" if no_cold else judged.because,
        stopped_early=stopped,
    )


def _cold(own: Own, cold: list[Start], disk: list[float]) -> str:
    """Drop the model's pages, see what the disk gives, drop them again, and start; why there is no cold start."""
    # The files of the model; a server is started for nothing else where only it knows them
    if not own.files() and own.case is None:
        with own.start({}):
            pass
    files = own.files()
    if not files:
        return "the model's files are unknown"
    own.progress.step("dropping the model from the page cache", 0.0)
    try:
        if users := read_users(own.system, files):
            return f"process {users[0]} has the model file mapped, so its pages stay cached"
        _drop_pages(own, files)
        speed = read_disk_speed(own.system, files, DISK_S)
        _drop_pages(own, files)
    except LookError as error:
        return error.why
    cold.append(_start(own, "cold"))
    disk.append(speed)
    return ""


def _drop_pages(own: Own, files: list[str]) -> None:
    """The pages are gone from memory; LookError where they are not."""
    drop_pages(own.system, files)
    share = read_cached_share(own.system, files)
    if share > GONE:
        raise LookError(f"{share:.0%} of the model stays in the page cache although it was dropped")


def _warm(own: Own, limits: Limits, warm: list[Start]) -> str:
    """Start it again and again with its file in memory; why not as often as was wanted."""
    begun = own.system.clock()
    wanted = max(WARM_STARTS, limits.repeats - 1)
    for number in range(wanted):
        own.share = (1 + number) / (1 + wanted)
        if warm and own.system.clock() - begun > limits.seconds:
            return OUT_OF_TIME
        try:
            warm.append(_start(own, "warm"))
        except UserError as error:
            return f"a start failed: {error.message}"
    return ""


def _start(own: Own, case: str) -> Start:
    with own.start({}) as bencher:
        try:
            text = read_text(bencher.system, f"/proc/{bencher.target.pid}/io")
        except LookError:
            text = ""
        counted, waited_s = parse_numbers(text).get("read_bytes"), run_delay(bencher.system, bencher.target.pid)
        read_bytes = None if counted is None else float(counted)
        wanted = BenchWish(f"{AXIS} {case}", _TOKENS)
        first = answer_or_retry(bencher, wanted)
        later = answer_or_retry(bencher, wanted._replace(round=2))
        return Start(own.load_s, read_bytes, first.client_total_s, later.client_total_s, waited_s)
