"""The one file between looking and thinking."""

from collections.abc import Iterator
from typing import Any

import msgspec

from unslow.facts.account import Account
from unslow.facts.calibration import Calibration
from unslow.facts.errors import UserError
from unslow.facts.machine import Facts, Machine
from unslow.facts.merge import with_cards_first
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import FACT_PATHS, Runtime
from unslow.facts.values import NOT_LOOKED, Amount, Count, Fact

SCHEMA = "unslow.snapshot/2"
_FLAT_SCHEMA = "unslow.snapshot/1"  # The schema before, whose runtimes have all facts side by side instead of in groups
LARGEST_SNAPSHOT_BYTES = 32 * 1024**2
LONGEST_TEXT, MOST_TEXT = 64 * 1024, 1024**2
"""Letters in one text, and in all of them, which are masked and searched; recorded snapshots have ten thousand."""
_LONGEST_SHOWN = 60


class ProbeOutcome(Facts, frozen=True, kw_only=True):
    """How one probe went; a probe that fails is a fact."""

    name: str
    seconds: Amount
    error: str = ""


class Statement(Facts, frozen=True, kw_only=True):
    """What one source says in a contradiction."""

    says: str
    source: str


class Contradiction(Facts, frozen=True, kw_only=True):
    """Sources that can't all be right: asked for, reported, allocated, seen on the device."""

    about: str  # The fact, such as `context_length`
    statements: tuple[Statement, ...]
    meaning: str = ""  # Its usual cause; empty where nothing in particular does


class Subject(Facts, frozen=True, kw_only=True):
    """One runtime with one model, what was measured on them, and what a person says about them."""

    runtime: Runtime = Runtime()
    model: Model = Model()
    run: Run = Run()
    account: Account = Account()
    contradictions: tuple[Contradiction, ...] = ()


class Wish(Facts, frozen=True, kw_only=True):
    """What the user said they want; nothing here was seen."""

    context_tokens: Fact[Count] = NOT_LOOKED
    tokens_per_s: Fact[Amount] = NOT_LOOKED


class Snapshot(Facts, frozen=True, kw_only=True):
    """Everything that was seen of one machine at one moment."""

    schema: str = SCHEMA
    unslow_version: str
    taken_at: str = ""
    machine: Machine = Machine()
    subjects: tuple[Subject, ...] = ()
    wish: Wish = Wish()
    calibrations: tuple[Calibration, ...] = ()  # What was measured of this machine before, by `unslow calibrate`
    probes: tuple[ProbeOutcome, ...] = ()
    kept: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields that this version does not know, kept for the one that does."""

    def cases(self) -> Iterator["Case"]:
        """One case for each subject, with the cards of the machine before what is a part of its processor."""
        machine = with_cards_first(self.machine)
        for subject in self.subjects:
            own = msgspec.structs.asdict(subject)
            yield Case(machine=machine, **own, wish=self.wish, calibrations=self.calibrations, taken_at=self.taken_at)


class Case(Facts, frozen=True, kw_only=True):
    """What the causes look at: one subject on its machine."""

    machine: Machine = Machine()
    runtime: Runtime = Runtime()
    model: Model = Model()
    run: Run = Run()
    account: Account = Account()
    contradictions: tuple[Contradiction, ...] = ()
    wish: Wish = Wish()
    calibrations: tuple[Calibration, ...] = ()
    taken_at: str = ""


def parse_snapshot(data: bytes, where: str = "the snapshot") -> Snapshot:
    """Read a snapshot; a wrong one is a UserError that names the field."""
    if len(data) > LARGEST_SNAPSHOT_BYTES:
        why = f"{where} is larger than {LARGEST_SNAPSHOT_BYTES >> 20} MiB, so it is not a snapshot"
        raise UserError(why, "a snapshot is written by `unslow collect -o FILE`")
    try:
        raw = msgspec.json.decode(data)
        schema = raw.get("schema") if isinstance(raw, dict) else None
        if not isinstance(schema, str) or not schema.startswith("unslow.snapshot/"):
            why = f"its schema is {schema[:_LONGEST_SHOWN]}" if isinstance(schema, str) else "no `schema` field"
            raise UserError(f"{where} is not a snapshot: {why}", "write one with `unslow collect -o FILE`")
        if schema not in (SCHEMA, _FLAT_SCHEMA):
            raise UserError(f"{where} has the schema {schema}; this version reads {SCHEMA}", "use a newer unslow")
        _check_texts(raw, where)
        raw = _upgrade(raw) if schema == _FLAT_SCHEMA else raw
        snapshot = msgspec.convert(raw, Snapshot)
        known = {"schema": SCHEMA, **msgspec.to_builtins(snapshot)}
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        text = str(error) or type(error).__name__
        raise UserError(f"{where} is not a snapshot: {text}", "was it cut short, or edited by hand?") from error
    return msgspec.structs.replace(snapshot, kept=_missing(raw, known))


def _upgrade(raw: dict[str, Any]) -> dict[str, Any]:
    """The same in the shape of today; what is not known, or is not as it should be, stays where it is."""
    subjects = raw.get("subjects")
    if isinstance(subjects, list):
        subjects = [_with_grouped_runtime(subject) if isinstance(subject, dict) else subject for subject in subjects]
        raw = {**raw, "subjects": subjects}
    return {**raw, "schema": SCHEMA}


def _with_grouped_runtime(subject: dict[str, Any]) -> dict[str, Any]:
    runtime = subject.get("runtime")
    if not isinstance(runtime, dict):
        return subject
    own: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name, fact in runtime.items():
        group, _, field = FACT_PATHS[name].rpartition(".") if name in FACT_PATHS else ("", "", name)
        (groups.setdefault(group, {}) if group else own)[field] = fact
    return {**subject, "runtime": {**own, **groups}}


def _check_texts(raw: Any, where: str) -> None:
    left, letters = [raw], 0
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str):
            letters += len(one)
            if len(one) > LONGEST_TEXT or letters > MOST_TEXT:
                raise UserError(
                    f"{where} contains a text of {len(one):,} characters, {letters:,} in total",
                    f"the limits are {LONGEST_TEXT:,} and {MOST_TEXT:,}: was it edited by hand?",
                )


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """The snapshot as JSON, with the unknown fields that it was read with."""
    known = msgspec.to_builtins(msgspec.structs.replace(snapshot, kept={}))
    merged = _merge_unknown_fields(snapshot.kept, known)
    merged["schema"] = snapshot.schema
    return msgspec.json.format(msgspec.json.encode(merged), indent=1)


def _missing(raw: Any, known: Any) -> Any:
    if isinstance(raw, dict) and isinstance(known, dict):
        pairs = ((k, v if k not in known else _missing(v, known[k])) for k, v in raw.items())
        return {k: v for k, v in pairs if v not in ({}, [])}
    if isinstance(raw, list) and isinstance(known, list | tuple) and len(raw) == len(known):
        rest = [_missing(a, b) for a, b in zip(raw, known, strict=True)]
        return rest if any(r not in ({}, []) for r in rest) else {}
    return {}


def _merge_unknown_fields(kept: Any, known: Any) -> Any:
    if isinstance(kept, dict) and isinstance(known, dict):
        return {**kept, **{k: _merge_unknown_fields(kept.get(k, {}), v) for k, v in known.items()}}
    if isinstance(kept, list) and isinstance(known, list | tuple) and len(kept) == len(known):
        return [_merge_unknown_fields(a, b) for a, b in zip(kept, known, strict=True)]
    return known
