"""All that is watched: which servers there are, which one is chosen, and the tick of this moment."""

from threading import Lock

from unslow.app.watching.found import find, label_of, same_place, target_to_watch
from unslow.app.watching.machine_now import devices_now, host_now
from unslow.app.watching.missing import notes_on
from unslow.app.watching.moment import server_now, speed_now
from unslow.app.watching.request import Request
from unslow.app.watching.watched import Watched
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System
from unslow.think.view.live import DeviceNow, HostNow, Tick
from unslow.think.view.live_memory import RamNow, bars_of

JUDGE_S, FIND_S, LOST_S = 5.0, 60.0, 5.0
"""Between two judgements, two searches for servers, and two searches while the server is away."""
JUDGE_SHARE, FIND_SHARE, LOST_SHARE = 0.005, 0.004, 0.01
"""Of one core that judging and searching may take: on a slow machine they come less often."""
SAMPLES_PER_S = 2.0
"""Of the machine, at most: the kernel's counters lose nothing by it."""


class Watching:
    """`look` is called by one thread again and again; `tick` and `choose` by any."""

    def __init__(self, system: System, request: Request) -> None:
        self._system, self._request = system, request
        self._lock = Lock()
        self._seen: Snapshot | None = None
        self._watched: Watched | None = None
        self._chosen = self._wanted = 0
        self._events: list[str] = []
        self._judge_at = self._find_at = self._found_at = self._started = 0.0
        self._warm = False
        self.rounds = 0
        """How often `look` has been through."""

    def start(self) -> None:
        """Find what there is; UserError where a server was named and is not there."""
        self._started = self._system.clock()
        seen = find(self._system, self._request)
        self._find_at = self._system.clock() + FIND_S
        self._open(seen, 0)

    def close(self) -> None:
        """Stop sampling."""
        if self._watched is not None:
            self._watched.sampler.stop()

    @property
    def is_found(self) -> bool:
        """Whether there is anything to watch."""
        return self._watched is not None

    @property
    def is_half_seen(self) -> bool:
        """Whether another look is wanted soon."""
        return self._watched is not None and self._watched.rates.is_half_seen

    def choose(self, step: int) -> None:
        """The server so many places further; it is opened at the next look."""
        count = len(self._seen.subjects) if self._seen else 0
        if count:
            self._wanted = (self._wanted + step) % count

    def look(self) -> None:
        """Ask the server, and where it is time, judge, or look for servers again."""
        if self._wanted != self._chosen and self._seen is not None:
            self._open(self._seen, self._wanted)
        watched = self._watched
        if watched is not None:
            watched.ask()
            if not watched.is_there():
                self._lost(watched)
            if watched.is_lost and watched.error is None:  # something answers at its address again
                self._find_at = min(self._find_at, self._found_at + LOST_S)
        if self._system.clock() >= self._find_at:
            self._find_again()
        if self._watched is not None and self._watched.state != "gone" and self._system.clock() >= self._judge_at:
            self._judge(self._watched)
        self.rounds += 1

    def _judge(self, watched: Watched) -> None:
        before = self._cpu_s()
        watched.judge()
        watched.lay_out(None if self._request.is_elsewhere else self._system)
        cost_s = self._cpu_s() - before if self._warm else 0.0  # the first time reads the catalogue
        self._warm = True
        self._judge_at = self._system.clock() + max(JUDGE_S, min(FIND_S, cost_s / JUDGE_SHARE))

    def _lost(self, watched: Watched) -> None:
        """Say once that it went away, and look for it at once and then every few seconds."""
        if not watched.is_lost:
            watched.lose()
            self._say("the server went away; looking for it")
            self._find_at = 0.0

    def _find_again(self) -> None:
        before, watched = self._cpu_s(), self._watched
        try:
            seen = find(self._system, self._request)
        except UserError:  # a named server that is not there (yet)
            seen = None
        cost_s = self._cpu_s() - before
        lost = watched is None or watched.is_lost
        share = LOST_SHARE if lost else FIND_SHARE
        self._found_at = self._system.clock()
        self._find_at = self._found_at + max(LOST_S if lost else FIND_S, min(FIND_S, cost_s / share))
        if seen is None or not seen.subjects:
            return
        place = same_place(seen.subjects, watched.subject) if watched else 0
        if watched is None or watched.is_lost or not watched.is_same(seen.subjects[place]):
            self._say(_found_words(watched, seen.subjects[place]))
            self._open(seen, place)
        else:
            with self._lock:
                self._seen, self._chosen, self._wanted = seen, place, place
            watched.refresh(seen, seen.subjects[place])

    def _open(self, seen: Snapshot, place: int) -> None:
        """Watch this one from now on."""
        self.close()
        watched = None
        if seen.subjects:
            subject = seen.subjects[place]
            pid = subject.runtime.pid.value_or(None)
            sampler = Sampler(self._system, [] if pid is None else [pid], self._hz)
            if not self._request.is_elsewhere:
                sampler.start()
            target = target_to_watch(self._system, subject, self._request)
            watched = Watched(self._system, seen, subject, target, sampler)
        with self._lock:
            self._seen, self._watched, self._chosen, self._wanted = seen, watched, place, place
        self._judge_at = 0.0

    def _cpu_s(self) -> float:
        """What this thread has used so far; nothing where the world is only played."""
        try:
            return self._system.live().cpu_s()
        except LookError:
            return 0.0

    @property
    def _hz(self) -> float:
        return min(SAMPLES_PER_S, 1 / self._request.interval_s)

    def _say(self, text: str) -> None:
        self._events = [f"{self._system.now()[11:19]} {text}"]

    def tick(self) -> Tick:
        """What there is to show now; asks nobody."""
        with self._lock:
            seen, watched, chosen = self._seen, self._watched, self._chosen
        now_s = self._system.clock()
        tick = Tick(at=self._system.now(), seconds=now_s - self._started, notes=tuple(self._events))
        if watched is None or seen is None:
            return tick
        devices, host = self._machine(watched, seen, now_s)
        used = {d.number: d.vram_used_bytes for d in devices if d.vram_used_bytes is not None}
        ram = RamNow(host.ram_total_bytes, host.ram_available_bytes, host.own_ram_bytes)
        judged, rates = watched.judgement, watched.rates
        return Tick(
            at=tick.at,
            seconds=tick.seconds,
            servers=tuple(label_of(subject) for subject in seen.subjects),
            chosen=chosen,
            server=server_now(watched, now_s),
            speed=speed_now(watched),
            requests=rates.requests,
            phases=watched.minute.phases(rates.phase),
            wall=judged.walls.get("prefill" if rates.phase == "prefill" else "decode") if judged else None,
            devices=devices,
            memory=bars_of(watched.case, used, ram, watched.laid),
            host=host,
            suspicion=judged.suspicion if judged else None,
            notes=(*tick.notes, *notes_on(watched.subject, watched.work)),
        )

    def _machine(self, watched: Watched, seen: Snapshot, now_s: float) -> tuple[tuple[DeviceNow, ...], HostNow]:
        sampler = watched.sampler
        window_s = max(2 * self._request.interval_s, 2.5 / self._hz)
        sampled = sampler.seen(now_s - window_s)
        return devices_now(sampled, sampler.devices, seen.machine), host_now(sampled, seen.machine)


def _found_words(before: Watched | None, found: Subject) -> str:
    """What to say of a server that is watched from now on."""
    if before is None:
        return "found a server"
    is_same = before.subject.runtime.url.value_or("") == found.runtime.url.value_or("-")
    return "the server is back" if is_same else "the server went away; another one is shown"
