"""The operating system of a case, and instructions in its words: commands with what is known filled in."""

import re
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from unslow.catalog.hardware_families import gpu_maker
from unslow.catalog.questions import UNKNOWN_WHICH, ReadingWay, readings
from unslow.facts.commands import shell_joined, shell_quoted
from unslow.facts.values import Known, Origin
from unslow.think.case.group import Group, remember

_MAKERS = {"CUDA": "NVIDIA", "ROCm": "AMD", "HIP": "AMD", "MTL": "Apple", "Metal": "Apple", "SYCL": "Intel"}
"""By the backend that a runtime names its devices after; Vulkan is anybody's."""
_UNIT = re.compile(r"/([\w@.:-]{1,120}\.service)(?:/|$)")
_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,120}")
_URL = re.compile(r"https?://[\w.:\[\]-]{1,120}(?:/[\w./-]{0,80})?")
_LOCAL = re.compile(r"http://127\.0\.0\.1:(?:\d+|PORT)\b")
_AGAIN = re.compile(r"(?<![\w.-])[\w.-]+(?: serve)? ARGUMENTS_AS_BEFORE")
_NOT_THE_SERVER = re.compile(r"bench|ghcr\.io")
_FILE_FLAGS = ("-m", "--model")
_NAMED = re.compile(r"\{([a-z_]+)\}")
_LINUX = re.compile(r"[3-9]\.\d")  # How the versions of its kernels begin


class _Here(NamedTuple):
    system: str
    makers: frozenset[str]
    container: str
    runtime: str
    log: str  # Where the log of its loads is, where that was found


class SystemView(Group):
    """The system that the runtime runs on."""

    @cached_property
    def is_windows(self) -> bool:
        """Whether it runs on Windows."""
        return "windows" in self.machine.system.name.value_or("").lower()

    @cached_property
    def family(self) -> str:
        """The family of the operating system; empty where neither a word nor the hardware tells."""
        words = self.machine.system.name.value_or(self.runtime.process.system.value_or("")).lower()
        if "windows" in words:
            return "Windows"
        if "mac" in words or "darwin" in words or "Apple" in self.gpu_makers:
            return "macOS"
        return "Linux" if words or self.container else ""

    @cached_property
    def container(self) -> str:
        """The kind of container that the runtime is in; empty for none that is known."""
        return str(self.runtime.process.container.value_or(self.machine.system.container.value_or("")))

    @cached_property
    def unit(self) -> str:
        """The service of systemd that starts the runtime, or whose control group limits it; empty for none known."""
        if isinstance(self.runtime.process.unit, Known):
            return self.runtime.process.unit.value.rpartition(" ")[2]
        limits = (self.runtime.process.memory_limit_bytes, self.runtime.process.quota_cpus)
        found = (_UNIT.search(limit.source) for limit in limits if isinstance(limit, Known))
        return next((match[1] for match in found if match), "")

    @cached_property
    def gpu_makers(self) -> frozenset[str]:
        """Who made the machine's GPUs, else those that the runtime sees."""
        makers = {gpu_maker(gpu) for gpu in self.case.gpus.usable} - {""}
        named = {device.name.rstrip("0123456789") for device in self.case.gpus.seen_by_runtime}
        return frozenset(makers or {_MAKERS[name] for name in named if name in _MAKERS})

    def fill_placeholders(self, line: str) -> str:
        """The line with the model, its file, the command and the address of the case in place of words for them."""
        again, url = self._command, self.runtime.process.url.value_or("").rstrip("/")
        line = _AGAIN.sub(lambda _: again, line) if again else line
        for placeholder, value in self._placeholders:
            line = re.sub(rf"(?<![\w.]){re.escape(placeholder)}(?![\w.])", value.replace("\\", r"\\"), line)
        return _LOCAL.sub(lambda _: url, line) if _URL.fullmatch(url) else line

    @cached_property
    def _placeholders(self) -> tuple[tuple[str, str], ...]:
        command = self.runtime.process.command.value_or([])
        given = [value for flag, value in pairwise(command) if flag in _FILE_FLAGS]
        path = given[-1] if given else str(self.model.path.value_or(""))
        # What a person calls a model may be nobody else's word
        name, file = self.model.name, path if path.endswith(".gguf") else ""
        printed = isinstance(name, Known) and name.origin is not Origin.TOLD and _NAME.fullmatch(name.value)
        files = (("MODEL.gguf", shell_quoted(file, self.family)),) if file else ()
        names = (("MODEL", printed[0]), ("NAME:TAG", f"{printed[0].partition(':')[0]}:TAG")) if printed else ()
        return *files, *names

    @cached_property
    def _command(self) -> str:
        """The command that it was started with; empty where that is not known, or starts something else."""
        command = self.runtime.process.command.value_or([])
        named = len(command) > 1 and not _NOT_THE_SERVER.search(command[0])
        return shell_joined(command, self.family) if named else ""

    @remember
    def spell_out(self, advice: str) -> str:
        """The advice with every reading that it names in braces replaced by the way to it that fits this case.

        Placeholders such as MODEL give way to what is known, as in the commands of fixes.
        """
        if _NAMED.search(advice):
            runtime = self.runtime.name.value_or("").lower() or UNKNOWN_WHICH
            # Ollama's log always has all of it, those of others as much as they are told to write
            log = self.runtime.process.log_path.value_or("") if runtime == "ollama" else ""
            here = _Here(self.family or UNKNOWN_WHICH, self.gpu_makers, self.container, runtime, log)
            advice = _spell_readings(advice, here)
        return self.fill_placeholders(advice)

    @cached_property
    def has_linux_drivers(self) -> bool:
        """Whether a kernel of Linux drives the GPUs: under WSL, whose kernel is Microsoft's, Windows does."""
        kernel = (self.machine.system.kernel.get() or "").lower()
        return bool(_LINUX.match(kernel)) and not self.is_windows and "microsoft" not in kernel


@lru_cache(maxsize=4096)  # a fleet has many instances in few surroundings
def _spell_readings(advice: str, here: _Here) -> str:
    def way_to(reading: re.Match[str]) -> str:
        """The first way that fits, which may name other readings in turn; what is no reading stays as it is."""
        if reading[1] == "load_log" and here.log:
            return f"`{here.log}`"
        ways = (_spell_readings(way.does, here) for way in readings().get(reading[1], ()) if _fits(way, here))
        return next(ways, reading[0])

    return _NAMED.sub(way_to, advice)


def _fits(way: ReadingWay, here: _Here) -> bool:
    return (
        (not way.systems or here.system in way.systems)
        and (not way.vendors or not here.makers.isdisjoint(way.vendors))
        and (not way.containers or here.container in way.containers)
        and (not way.runtimes or any(here.runtime.endswith(name.lower()) for name in way.runtimes))
    )
