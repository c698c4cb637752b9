"""Every cause on whole machines, recorded or built: found on one, and ruled out by its own question on another."""

import json
import tomllib
from functools import cache
from pathlib import Path

import pytest
from recorded_machines import FOLDERS, recorded
from tests.golden.files import stored
from tools import strangers

from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, ruled_out_at_once
from unslow.think.judge.judge import _answer

IDS = list(all_causes())


def found_on(folder):
    """The causes of the stored report, which `tests/test_machines.py` compares with the one of now."""
    report = json.loads(stored("diagnose")[folder.name]["json"])
    return {finding["cause"] for subject in report["subjects"] for finding in subject.get("findings", ())}


def told_of(folder):
    said = tomllib.loads((folder / "expected.toml").read_text())
    return {said["first_cause"], *said.get("also", [])}


@cache
def asked_on(folder):
    """The causes that only their own check rules out here: nothing about the machine does it beforehand."""
    return {
        name
        for case in recorded(folder).cases()
        for name, cause in all_causes().items()
        if ruled_out_at_once(CaseView(case), cause) is None and isinstance(_answer(CaseView(case), cause), Absent)
    }


@pytest.mark.parametrize("name", IDS)
def test_it_is_reported_on_a_machine_that_was_made_for_it(name):
    made_for_it = [folder for folder in FOLDERS if name in told_of(folder)]
    assert made_for_it, f"no expected.toml in tests/machines names {name}: CONTRIBUTING.md, 'A recorded machine'"
    stored_for_it = [folder.name for folder in made_for_it if name in found_on(folder)]
    assert stored_for_it, (
        f"not found on {[f.name for f in made_for_it]}; stored anew? python -m tests.golden update diagnose"
    )


@pytest.mark.parametrize("name", IDS)
def test_its_own_question_rules_it_out_on_another_machine(name):
    assert any(name in asked_on(folder) for folder in FOLDERS)


@pytest.mark.parametrize("name", IDS)
def test_its_test_has_a_near_miss(name):
    assert "Absent" in (Path(__file__).parent / f"test_{name}.py").read_text()


PLACES = (
    "built_m1_pro_16_gb_under_pressure", "built_m2_max_healthy", "built_windows_rtx_4060_healthy",
    "built_windows_cpu_only_build", "built_windows_igpu_while_rtx_4060_idles", "built_rx_7900_xtx_healthy",
    "built_rx_6600_gfx1032_unsupported", "built_vllm_preemptions", "built_ollama_leaves_layers_out",
    "built_exllama_starts_each_kernel", "built_container_without_the_gpu", "h200_transformers_8b_eager",
    "h200_llama_server_moe_spill_stranger", "lab_cpu_healthy_small",
)  # fmt: skip
"""One for each system, maker of GPUs and runtime."""


@pytest.mark.no_cover  # the machines are judged elsewhere
@pytest.mark.parametrize("place", PLACES)
def test_a_machine_is_asked_for_nothing_that_it_has_not(place):
    """As it was looked at, with the advice that probes and runtimes left themselves."""
    asked = 0
    for case in recorded(next(folder for folder in FOLDERS if folder.name == place)).cases():
        where = {
            "system": CaseView(case).system.family,
            "makers": CaseView(case).system.gpu_makers,
            "runtime": case.runtime.name.value_or(""),
        }
        for name, cause in all_causes().items():
            answer = _answer(CaseView(case), cause)
            if isinstance(answer, CannotTell):
                asked += 1
                assert answer.how_to_get, name
                assert not strangers(answer.how_to_get, **where), (name, answer.how_to_get)
    assert asked
