"""In which build of llama.cpp what changed, and so what a setting is where nobody set it.

Builds are numbered `b7407-abc`, by counting commits. One made from an archive has no number (`b0-unknown`), one made
from a shallow clone counts only the commits that it has (`b1-abc`, `b50-abc`); then what its answers hold says how old
it can be at most.
"""

import re
from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.facts.values import NOT_LOOKED, Absence, Fact, Unknown, estimated, not_supported

FIRST_OF_GGUF = 1000  # August 2023, rounded down: no build that reads today's models has a smaller number
VERBOSITY_HIDES_LOAD = 9151  # 2026-05-14: load lines need -lv 4
FLASH_ATTENTION_TAKES_A_VALUE = 6325  # 2025-08-30
AUTOMATIC_SLOTS = 7000  # 2025-11-02: four slots and one cache where nobody says how many; rounded up
LOAD_MODE = 10105  # 2026-07-23: --load-mode in place of --mmap, --mlock, --direct-io
SIGNS_OF_AGE: tuple[tuple[str, int], ...] = (
    ("is_sleeping", 7450),  # a field of /props since servers can sleep, 2025-12-21; the build is rounded down
)


class Default(NamedTuple):
    """What a setting is where nobody set it, since the build that brought it."""

    fact: str
    value: Any
    since: int


DEFAULTS: tuple[Default, ...] = (
    Default("fit", value=True, since=7407),  # 2025-12-15
    Default("fit_margin_bytes", 1024 * MIB, since=7407),
    Default("fit_context_min", 4096, since=7407),
    Default("cache_ram_bytes", 8192 * MIB, since=6743),  # 2025-10-09; the build is rounded up
    Default("log_level", 3, since=VERBOSITY_HIDES_LOAD),
)


def build_number(version: Fact[str]) -> int | None:
    """The number of a build; None where it has none, or one that means nothing."""
    found = re.match(r"b(\d{1,9})\b", version.value_or(""))
    return int(found[1]) if found and int(found[1]) >= FIRST_OF_GGUF else None


def oldest_possible(props: Any) -> Fact[int]:
    """The build that a server is at least, by what its answer to /props holds."""
    builds = [build for sign, build in SIGNS_OF_AGE if isinstance(props, dict) and sign in props]
    return estimated(max(builds), "the fields of /props") if builds else NOT_LOOKED


def is_not_given(fact: Fact[Any]) -> bool:
    """Whether everything that could have given a setting was seen, and nothing did."""
    return isinstance(fact, Unknown) and fact.absence is Absence.NOT_FOUND


def with_defaults(asked: Runtime, version: Fact[str], at_least: int = 0) -> dict[str, Fact[Any]]:
    """What each setting that was looked for and not given is in this build, or in any from `at_least` on."""
    build = build_number(version)
    silent = [default for default in DEFAULTS if is_not_given(getattr(asked, default.fact))]
    found = {default.fact: _in_build(default, build, at_least) for default in silent}
    return {name: fact for name, fact in found.items() if fact != NOT_LOOKED}


def _in_build(default: Default, build: int | None, at_least: int) -> Fact[Any]:
    if (build or at_least) >= default.since:
        return estimated(default.value, f"default of llama.cpp since b{default.since}")
    if build is None:
        return NOT_LOOKED
    return not_supported(f"b{build} is older than this setting, which came with b{default.since}")
