"""Which flags a build of llama-server has: by its own help, else by the build that brought each of them.

Builds are those in which common/arg.cpp first had the flag; all others here are older than that file (b3717, 2024-09).
"""

import re
from collections.abc import Mapping

from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.llama_server.builds import FLASH_ATTENTION_TAKES_A_VALUE, LOAD_MODE, build_number

SINCE: Mapping[str, int] = {
    "-dev": 4168,
    "-ot": 5028,
    "--no-op-offload": 5346,
    "--swa-full": 5429,
    "--reasoning-budget": 5488,
    "-kvu": 5913,
    "-cmoe": 6089,
    "-ncmoe": 6089,
    "--fit": 7407,
    "-fitt": 7407,
    "--sleep-idle-seconds": 7492,
    "-dio": 7668,
    "--no-cache-prompt": 7716,
    "--spec-type": 7864,
    "--spec-draft-n-max": 8955,
    "-lm": LOAD_MODE,
}
VALUES_SINCE: Mapping[tuple[str, str], int] = {
    ("-fa", "on"): FLASH_ATTENTION_TAKES_A_VALUE,
    ("-ngl", "all"): 7553,
    ("-sm", "tensor"): 8738,
    ("-lm", "mmap+mlock"): 10145,
    ("-lm", "auto"): 10364,
    **{("--spec-type", f"ngram-{kind}"): 9109 for kind in ("simple", "map-k", "map-k4v", "mod", "cache")},
    ("--spec-type", "draft-simple"): 9131,
    ("--spec-type", "draft-eagle3"): 9131,
    ("--spec-type", "draft-mtp"): 9180,
    ("--spec-type", "draft-dflash"): 9831,
    ("--spec-type", "draft-dspark"): 10163,
}


class Options:
    """The flags of the build at hand; one without a number and without help is taken for a new one."""

    def __init__(self, runtime: Runtime, told: Mapping[str, str]) -> None:
        self._build, self._told = build_number(runtime.version), told
        self._is_seen = any(isinstance(fact, Known) for fact in (runtime.version, runtime.pid, runtime.url))

    @property
    def fits_by_itself(self) -> bool:
        """Whether no number of layers means as many as fit: in older builds, of which a text may tell, none."""
        if self._told or self._build:
            return self.has("--fit")
        return self._is_seen

    def has(self, flag: str) -> bool:
        """Whether the build knows a flag."""
        return flag in self._told if self._told else self._reaches(SINCE.get(flag, 0))

    def takes(self, flag: str, value: str) -> bool:
        """Whether it knows the flag, and this word as its value."""
        if self._told:
            return bool(re.search(rf"(?<![\w+-]){re.escape(value)}(?![\w+-])", self._told.get(flag, "")))
        return self.has(flag) and self._reaches(VALUES_SINCE.get((flag, value), 0))

    def without(self, flag: str, value: str = "") -> str:
        """Why a flag, or a value of it, is not to be had."""
        words = f"{flag} {value}".strip()
        since = max(SINCE.get(flag, 0), VALUES_SINCE.get((flag, value), 0))
        if self._told or not self._build:
            return f"the llama-server at hand has no {words}"
        return f"b{self._build} has no {words}, which came with b{since}"

    def _reaches(self, since: int) -> bool:
        return self._build is None or self._build >= since
