"""The snapshot file: kept complete, and refused by field name where it is wrong."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Facts, Gpu, Machine
from unslow.facts.runtime import FACT_PATHS, Runtime
from unslow.facts.snapshot import LARGEST_SNAPSHOT_BYTES, SCHEMA, Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.facts.values import (
    NOT_LOOKED,
    Absence,
    Known,
    MissingFactError,
    Unknown,
    first_known,
    measured_fact,
    reported_fact,
)


def snapshot() -> Snapshot:
    cpu = Cpu(
        physical_cores=reported_fact(8, "/proc/cpuinfo"), governor=Unknown("no cpufreq", absence=Absence.NOT_SUPPORTED)
    )
    gpus = reported_fact((Gpu(index=0, name=reported_fact("NVIDIA H200", "nvml")),), "nvml")
    return Snapshot(unslow_version="0.1.0", machine=Machine(cpu=cpu, gpus=gpus), subjects=(Subject(),))


def test_a_snapshot_survives_the_file():
    assert parse_snapshot(dump_snapshot(snapshot())) == snapshot()


def test_unknown_fields_are_kept_at_every_depth():
    raw = json.loads(dump_snapshot(snapshot()))
    raw["from_the_future"] = {"a": 1}
    raw["machine"]["cpu"]["cache_bytes"] = 7
    raw["machine"]["gpus"]["value"][0]["colour"] = "green"
    again = json.loads(dump_snapshot(parse_snapshot(json.dumps(raw).encode())))
    assert again["from_the_future"] == {"a": 1}
    assert again["machine"]["cpu"]["cache_bytes"] == 7
    assert again["machine"]["gpus"]["value"][0]["colour"] == "green"
    assert again["machine"]["gpus"]["value"][0]["name"]["value"] == "NVIDIA H200"


def broken(path: list, value: object) -> bytes:
    raw = json.loads(dump_snapshot(snapshot()))
    place = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["machine", "cpu", "physical_cores", "value"], "eight", "$.machine.cpu.physical_cores.value"),
        (["machine", "cpu", "physical_cores", "value"], -1, "$.machine.cpu.physical_cores.value"),
        (["machine", "cpu", "physical_cores", "value"], 10**30, "$.machine.cpu.physical_cores.value"),
        (["machine", "cpu", "physical_cores", "origin"], "a friend", "$.machine.cpu.physical_cores.origin"),
        (["machine", "gpus", "value", 0, "name"], 3, "$.machine.gpus.value[0].name"),
        (["subjects"], {}, "$.subjects"),
        (["machine"], [], "$.machine"),
    ],
)
def test_a_wrong_type_is_named_by_its_path(path, value, named):
    with pytest.raises(UserError, match="not a snapshot") as caught:
        parse_snapshot(broken(path, value), "seen.json")
    assert named in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe\x00",
        dump_snapshot(snapshot())[:-40],
        b"[" * 200_000,
        b'{"schema":' * 100_000,
        b'{"schema":"unslow.snapshot/1","kept":' + b"[" * 100_000,
        b'{"schema":"unslow.snapshot/99","unslow_version":"9"}',
        b'{"schema":"unslow.snapshot/1"}',
        b'{"schema":"unslow.snapshot/2"}',
        b'{"schema":"unslow.snapshot/1","unslow_version":"0","subjects":{"runtime":3}}',
        b'{"schema":"unslow.snapshot/1","unslow_version":"0","subjects":[3]}',
        b'{"schema":"unslow.snapshot/1","unslow_version":"0","subjects":[{"runtime":[]}]}',
        b'{"schema":"unslow.snapshot/1","unslow_version":"0","subjects":[{"runtime":{"placement":3}}]}',
        b'{"schema":"unslow.snapshot/1","unslow_version":"0","subjects":[{"runtime":{"threads":{"is":"known"}}}]}',
        b'{"schema":3}',
        b"x" * (LARGEST_SNAPSHOT_BYTES + 1),
    ],
    ids=lambda d: repr(d[:90]),
)
def test_hostile_files_are_user_errors(data):
    with pytest.raises(UserError) as caught:
        parse_snapshot(data)
    assert caught.value.hint


OLD = [
    file for file in sorted((Path(__file__).parents[1] / "machines").glob("*/snapshot.json"))
    if '"unslow.snapshot/1"' in file.read_text("utf-8")
][::15]  # fmt: skip
"""Recorded machines, written before a runtime's facts were in groups."""


def _flat(runtime: dict[str, Any]) -> dict[str, Any]:
    names = {path: name for name, path in FACT_PATHS.items()}
    flat = {}
    for name, value in runtime.items():
        is_group = isinstance(getattr(Runtime(), name), Facts)
        flat |= {names[f"{name}.{field}"]: fact for field, fact in value.items()} if is_group else {name: value}
    return flat


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.parent.name)
def test_a_snapshot_of_the_first_schema_is_read_and_written_in_the_second(file):
    old = json.loads(file.read_bytes())
    assert old["schema"] == "unslow.snapshot/1"
    read = parse_snapshot(file.read_bytes())
    written = dump_snapshot(read)
    assert json.loads(written)["schema"] == SCHEMA == "unslow.snapshot/2"
    assert parse_snapshot(written) == read
    runtimes = [_flat(subject.get("runtime", {})) for subject in json.loads(written)["subjects"]]
    assert runtimes == [subject.get("runtime", {}) for subject in old["subjects"]]


def test_unknown_fields_of_a_flat_runtime_are_kept():
    old = {"schema": "unslow.snapshot/1", "unslow_version": "0", "subjects": [{"runtime": {"mood": 7, "a.b": 8}}]}
    again = json.loads(dump_snapshot(parse_snapshot(json.dumps(old).encode())))
    assert again["subjects"][0]["runtime"] == {"mood": 7, "a.b": 8}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2000))
def test_a_damaged_snapshot_is_read_or_a_user_error(noise, at):
    data = bytearray(dump_snapshot(snapshot()))
    data[at : at + len(noise)] = noise
    with contextlib.suppress(UserError):
        assert parse_snapshot(bytes(data)).schema


def test_not_found_wins_over_not_looked():
    assert first_known(NOT_LOOKED, Unknown("none", absence=Absence.NOT_FOUND)).absence is Absence.NOT_FOUND
    assert first_known(Unknown("none"), measured_fact(1, "m")).need() == 1
    assert first_known(NOT_LOOKED) is NOT_LOOKED
    with pytest.raises(MissingFactError, match="none"):
        Unknown("none").need()
    assert Unknown("none").value_or(3) == 3
    assert isinstance(measured_fact(1, "m"), Known)


@pytest.mark.parametrize("texts", [["a" * 100_000], ["a" * 60_000] * 20])
def test_oversized_texts_are_refused(texts):
    raw = {"schema": SCHEMA, "unslow_version": "1", "kept": {str(n): text for n, text in enumerate(texts)}}
    with pytest.raises(UserError, match="characters, "):
        parse_snapshot(json.dumps(raw).encode())
