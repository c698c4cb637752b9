"""All that is watched: which servers there are, the devices, the thread that looks, and the ticks that come of it."""

import os
from collections.abc import Iterator, Mapping
from threading import Event, Lock, Thread
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.commands.diagnose.discretion import Discretion
from unslow.commands.diagnose.runtimes import chosen_subjects, subjects_at_url
from unslow.commands.diagnose.target import as_url, check_url, collect, is_live, with_machine, with_subjects
from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine
from unslow.facts.snapshot import Snapshot
from unslow.facts.values import Known, not_supported
from unslow.live.server import GONE, WAITING, ServerWatch, server_now, speed_now
from unslow.live.tick import DeviceNow, HostNow, Tick, bars_of
from unslow.look.sampler.readings import Device
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback

ELSEWHERE = not_supported("the server runs on another machine", "run unslow there")
MOST_SERVERS = 32
SHOWN = 0.2  # Of the samples in which a reason must be set to be shown
_OF_IDLE = ("gpu_idle", "none", "applications_clocks_setting")  # Reasons that hold nothing back
JUDGE_S, FIND_S, LOST_S = 5.0, 60.0, 5.0
"""Between two judgements, two searches for servers, and two searches while the server is away."""
JUDGE_SHARE, FIND_SHARE, LOST_SHARE = 0.005, 0.004, 0.01
"""Of one core that judging and searching may take: on a slow machine they come less often."""
SAMPLES_PER_S = 2.0  # Of the machine, at most: the kernel's counters lose nothing by it
LOOKS = 2  # To each interval: an answer that takes a second or two is seen more than once
SOON_S = 0.2  # After the first look at an answer: one that is over within a second has a speed too
ENOUGH_ROUNDS = 4
"""Of looking, before one moment alone is shown: growth needs two looks, and the first judgement takes a while."""
LONGEST_ONCE_S = 30.0
JOIN_S = 0.5  # A thread that waits for a server is left behind: it ends with the program


class Watcher:
    """`look` is called by one thread again and again; `tick` and `choose` by any."""

    def __init__(self, system: System, request: WatchRequest) -> None:
        self._system, self._request = system, request
        self._lock = Lock()
        self._seen: Snapshot | None = None
        self._watched: ServerWatch | None = None
        self._chosen = self._wanted = 0
        self._events: list[str] = []
        self._judge_at = self._find_at = self._found_at = self._started = 0.0
        self._warm = False
        self._hz = min(SAMPLES_PER_S, 1 / request.interval)
        self.rounds = 0  # How often `look` has been through

    def start(self) -> None:
        """Find what there is; UserError where a server was named and is not there."""
        self._started = self._system.clock()
        seen = find_watched(self._system, self._request)
        self._find_at = self._system.clock() + FIND_S
        self._open(seen, 0)

    def close(self) -> None:
        if self._watched is not None:
            self._watched.sampler.stop()

    @property
    def is_found(self) -> bool:
        return self._watched is not None

    @property
    def needs_second_look(self) -> bool:
        return self._watched is not None and self._watched.rates.needs_second_look

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
            if not watched.is_there() and not watched.is_lost:
                watched.mark_lost()
                self._say(GONE)
                self._find_at = 0.0
            if watched.is_lost and watched.error is None:  # something answers at its address again
                self._find_at = min(self._find_at, self._found_at + LOST_S)
        if self._system.clock() >= self._find_at:
            self._find_again()
        if self._watched is not None and self._watched.state != "gone" and self._system.clock() >= self._judge_at:
            before = self._cpu_s()
            self._watched.judge()
            self._watched.lay_out(None if is_elsewhere(self._request) else self._system)
            cost_s = self._cpu_s() - before if self._warm else 0.0  # the first time reads the catalog
            self._warm = True
            self._judge_at = self._system.clock() + max(JUDGE_S, min(FIND_S, cost_s / JUDGE_SHARE))
        self.rounds += 1

    def _find_again(self) -> None:
        before, watched = self._cpu_s(), self._watched
        try:
            seen = find_watched(self._system, self._request)
        except UserError:  # a named server that is not there (yet)
            seen = None
        cost_s = self._cpu_s() - before
        lost = watched is None or watched.is_lost
        share = LOST_SHARE if lost else FIND_SHARE
        self._found_at = self._system.clock()
        self._find_at = self._found_at + max(LOST_S if lost else FIND_S, min(FIND_S, cost_s / share))
        if seen is None or not seen.subjects:
            return
        urls = [subject.runtime.process.url.value_or("") for subject in seen.subjects]
        url = watched.subject.runtime.process.url.value_or("") if watched else None
        place = urls.index(url) if url in urls else 0  # its address, else the first
        if watched is None or watched.is_lost or not watched.is_same(seen.subjects[place]):
            if watched is None:
                self._say("found a server")
            else:
                self._say("the server is back" if url in urls else "the server is gone; showing another one")
            self._open(seen, place)
        else:
            with self._lock:
                self._seen, self._chosen, self._wanted = seen, place, place
            watched.refresh(seen, seen.subjects[place])

    def _open(self, seen: Snapshot, place: int) -> None:
        self.close()
        watched = None
        if seen.subjects:
            watched = ServerWatch(self._system, seen, seen.subjects[place], self._request.api_key, self._hz)
            if not is_elsewhere(self._request):
                watched.sampler.start()
        with self._lock:
            self._seen, self._watched, self._chosen, self._wanted = seen, watched, place, place
        self._judge_at = 0.0

    def _cpu_s(self) -> float:
        """CPU time of this thread; 0 on a recorded system."""
        try:
            return self._system.live().cpu_s()
        except LookError:
            return 0.0

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
        sampler = watched.sampler
        sampled = sampler.means_between(now_s - max(2 * self._request.interval, 2.5 / self._hz))
        devices, host = devices_now(sampled, sampler.devices, seen.machine), host_now(sampled, seen.machine)
        facts = ((one.runtime.name, one.model.name, one.runtime.process.url) for one in seen.subjects)
        labels = [" ".join(fact.value for fact in known if isinstance(fact, Known)) for known in facts]
        used = {d.number: d.vram_used_bytes for d in devices if d.vram_used_bytes is not None}
        judged, rates, work = watched.judgement, watched.rates, watched.work
        is_llama = watched.subject.runtime.name.value_or("").endswith("llama.cpp")
        untold = (WAITING,) if work is not None and is_llama and work.waiting is None else ()
        return msgspec.structs.replace(
            tick,
            servers=tuple(label or "a server" for label in labels),
            chosen=chosen,
            server=server_now(watched, now_s),
            speed=speed_now(watched),
            requests=rates.requests,
            phases=watched.minute.phases(rates.phase),
            wall=judged.walls.get("prefill" if rates.phase == "prefill" else "decode") if judged else None,
            devices=devices,
            memory=bars_of(watched.case, used, host, watched.laid),
            host=host,
            suspicion=judged.suspicion if judged else None,
            notes=(*tick.notes, *untold),
        )


class WatchThread:
    """Looks at every interval, in a thread of its own, from `start` to `stop`."""

    def __init__(self, watching: Watcher, interval_s: float, system: System) -> None:
        self._watching, self._every_s, self._system = watching, interval_s / LOOKS, system
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="unslow watch", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(JOIN_S)
        self._watching.close()

    def _run(self) -> None:
        clock, due = self._system.clock, self._system.clock()
        try:
            while not self._stopping.is_set():
                self._watching.look()
                due = max(due + self._every_s, clock())
                if self._watching.needs_second_look and not self._stopping.wait(min(SOON_S, due - clock())):
                    self._watching.look()
                self._stopping.wait(due - clock())
        except BaseException as error:  # noqa: BLE001 (a bug must reach whoever shows the screen)
            self.failure = error


def ticks(watching: Watcher, request: WatchRequest, system: System) -> Iterator[Tick]:
    """A tick at every interval; one alone where only one was asked for, once a speed can be told."""
    eyes, start_s = WatchThread(watching, request.interval, system), system.clock()
    eyes.start()
    try:
        if request.once:
            while watching.rounds < ENOUGH_ROUNDS and system.clock() - start_s < LONGEST_ONCE_S + request.interval:
                _checked_tick(watching, eyes)
                system.sleep(request.interval / LOOKS)
            yield _checked_tick(watching, eyes)
            return
        while request.seconds is None or system.clock() - start_s < request.seconds:
            system.sleep(request.interval)
            yield _checked_tick(watching, eyes)
    finally:
        eyes.stop()


def _checked_tick(watching: Watcher, eyes: WatchThread) -> Tick:
    if eyes.failure is not None:
        raise eyes.failure
    return watching.tick()


def checked_request(request: WatchRequest) -> WatchRequest:
    """The request with the key of the environment where none was given; UserError where its target does not run."""
    if not is_live(request.target):
        raise UserError(f"{request.target} is not a running server", "give the URL or the process id of one")
    return request._replace(api_key=request.api_key or os.environ.get("UNSLOW_API_KEY"))


def find_watched(system: System, request: WatchRequest) -> Snapshot:
    """The machine, and the servers that the request means; UserError where a named one is not there."""
    url, key = watched_url(request), request.api_key or ""
    if is_elsewhere(request):
        seen = Snapshot(unslow_version=__version__, taken_at=system.now(), machine=Machine(gpus=ELSEWHERE))
        subjects = subjects_at_url(system, url or "", key)
    else:
        seen = collect(system, bandwidth=False, api_key=key, port=urlsplit(url).port if url else None)
        subjects = chosen_subjects(system, seen, url, None if url else request.target, key)
        subjects = tuple(with_machine(subject, seen.machine) for subject in subjects)
    watched = tuple(subject for subject in subjects if isinstance(subject.runtime.process.url, Known))
    return Discretion.about(key, request.target).facts(with_subjects(seen, watched[:MOST_SERVERS]))


def watched_url(request: WatchRequest) -> str | None:
    """The target, where it is a URL; UserError where it is a wrong one."""
    named = as_url(request.target or "")
    return check_url(named) if named else None


def watched_host(request: WatchRequest) -> str:
    """The host of the URL; empty where none was named."""
    return urlsplit(watched_url(request) or "").hostname or ""


def is_elsewhere(request: WatchRequest) -> bool:
    """Whether the server is on another machine, of which nothing else can be seen."""
    return watched_url(request) is not None and not is_loopback(watched_host(request))


def devices_now(seen: Mapping[str, float], devices: tuple[Device, ...], machine: Machine) -> tuple[DeviceNow, ...]:
    """Every GPU that is sampled, then those that only a probe has seen."""
    gpus = machine.gpus.value_or(())
    if devices:
        return tuple(_sampled_device(seen, device, gpus) for device in devices)
    probed = ("busy", "clock_hz", "power_w", "temperature_c", "vram_used_bytes", "vram_total_bytes")
    return tuple(
        DeviceNow(
            number=gpu.index,
            name=gpu.name.value_or("GPU"),
            **{name: getattr(gpu, name).value_or(None) for name in probed},
        )
        for gpu in gpus
    )


def _sampled_device(seen: Mapping[str, float], device: Device, gpus: tuple[Gpu, ...]) -> DeviceNow:
    same = [gpu for gpu in gpus if device.name in (gpu.name.value_or(""), gpu.bus_id.value_or(""))]
    numbered = [gpu for gpu in same or gpus if gpu.index == device.number]
    gpu = next(iter([*numbered, *same]), Gpu(index=device.number))
    start = f"{device.prefix}reason_"
    reasons = (name.removeprefix(start) for name, share in seen.items() if name.startswith(start) and share >= SHOWN)
    sampled = ("busy", "memory_busy", "clock_hz", "power_w", "temperature_c", "vram_used_bytes")
    return DeviceNow(
        number=device.number,
        name=gpu.name.value_or(device.name),
        clock_max_hz=gpu.clock_max_hz.value_or(None),
        power_limit_w=gpu.power_limit_w.value_or(None),
        vram_total_bytes=gpu.vram_total_bytes.value_or(None),
        reasons=tuple(reason for reason in reasons if reason not in _OF_IDLE),
        **{name: seen.get(device.prefix + name) for name in sampled},
    )


def host_now(seen: Mapping[str, float], machine: Machine) -> HostNow:
    """The host; what is not sampled is None."""
    same = ("busy_cpus", "own_cpus", "others_cpus")
    rates = ("swap_in_bytes_per_s", "swap_out_bytes_per_s", "disk_read_bytes_per_s")
    return HostNow(
        cpus=machine.cpu.logical_cpus.value_or(None),
        throttled=seen.get("cpu_throttled_share"),
        ram_total_bytes=machine.memory.total_bytes.value_or(None),
        ram_available_bytes=seen.get("memory_available_bytes"),
        own_ram_bytes=seen.get("own_rss_bytes"),
        **{name: seen.get(name) for name in (*same, *rates)},
    )
