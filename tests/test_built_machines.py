"""Built machines: marked as such, with the source of their figures, and reproducible."""

import tomllib
from pathlib import Path

import pytest
from lab.built_machines.built import SNAPSHOT
from lab.built_machines.every import every
from lab.built_machines.world import World

from unslow.commands.diagnose.target import read_stored
from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.recorded import INDEX
from unslow.think.causes import all_causes

MACHINES = Path(__file__).parent / "machines"
OTHERS = {"built_rx_7900_xtx"}
"""Built for the test of a probe alone."""
BUILT = every()
ONE_OF_EACH_FORM = ("rtx_4090_thermal_throttling", "h200_power_limit_200_w", "m2_max_healthy", "vllm_preemptions")


def test_built_machine_names_are_unique():
    assert len({built.name for built in BUILT}) == len(BUILT)


def test_the_built_folders_are_those_that_can_be_built():
    there = {folder.name for folder in MACHINES.glob("built_*")}
    assert there - OTHERS == {f"built_{built.name}" for built in BUILT}


@pytest.mark.parametrize("built", BUILT, ids=lambda built: built.name)
def test_each_built_machine_is_marked_and_names_its_source(built):
    said = tomllib.loads((MACHINES / f"built_{built.name}" / "expected.toml").read_text())
    assert said["what"].startswith("built: ")
    assert said["checked"] == ("://" in said["source"]), "an address stands there once somebody has read it"
    assert {said["first_cause"], *said["also"]} - {""} <= set(all_causes())
    assert (said["first_cause"] == "") or said["verdict"] in ("slow", "failed")


@pytest.mark.parametrize("name", ONE_OF_EACH_FORM)
def test_building_again_gives_the_same_files(name, tmp_path):
    (built,) = (built for built in BUILT if built.name == name)
    again, kept = built.build(tmp_path), MACHINES / f"built_{name}"
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in kept.iterdir())
    for path in again.iterdir():
        if path.name not in (SNAPSHOT, INDEX):
            assert path.read_bytes() == (kept / path.name).read_bytes()
    assert read_stored(str(again)) == read_stored(str(kept))


def test_a_folder_with_one_snapshot_is_that_snapshot():
    folder = MACHINES / "built_m2_max_healthy"
    assert read_stored(str(folder)) == read_stored(str(folder / SNAPSHOT))


def test_a_fake_world_answers_in_turn_and_knows_missing_files():
    world = World(files={"/proc/stat": ["first", "second"], "/proc/7/comm": "x\n"})
    assert [world.read_bytes("/proc/stat") for _ in range(3)] == [b"first", b"second", b"second"]
    assert world.list_dir("/proc") == ["7", "stat"]
    with pytest.raises(LookError) as missing:
        world.read_link("/proc/7/exe")
    assert missing.value.absence is Absence.NOT_FOUND
