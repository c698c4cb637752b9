"""A second GPU that the runtime does not use changes no diagnosis."""

import tomllib
from pathlib import Path

import pytest
from recorded_machines import FOLDERS, recorded
from second_gpu import SECOND, tells_its_gpu, with_second

from unslow.think.judge.judge import diagnose

pytestmark = pytest.mark.no_cover  # the machines are judged elsewhere: this tells nothing more of lines
WITHOUT = ("lab_cpu", "lab_llama_swap", "lab_mlx_lm", "lab_ollama", "lab_vllm_cpu", "lab_vulkan")
"""The machines that the lab plays without a GPU."""
ONE_GPU = [m for m in FOLDERS if not m.name.startswith(WITHOUT)]
KINDS = sorted(SECOND)
TURNS = [(folder, KINDS[number % len(KINDS)]) for number, folder in enumerate(ONE_GPU)]
"""One kind for each machine in turn: all of them for each would take minutes."""


@pytest.mark.parametrize(("folder", "kind"), TURNS, ids=lambda p: getattr(p, "name", p))
def test_an_unused_second_gpu_does_not_change_the_diagnosis(folder: Path, kind: str) -> None:
    snapshot = recorded(folder)
    if not all(tells_its_gpu(case) for case in snapshot.cases()):
        pytest.skip("no fact says which GPU the runtime has")
    report = diagnose(with_second(snapshot, SECOND[kind])).subjects[0]
    want = tomllib.loads((folder / "expected.toml").read_text())
    found = [finding.cause for finding in report.findings]
    assert report.verdict == want["verdict"]
    assert (found[0] if found else "") == want["first_cause"]
    consequences = report.findings[0].explains if report.findings else ()
    allowed = {want["first_cause"], *want.get("also", []), *consequences}
    assert set(found) <= allowed | {"weights_spill_to_ram", "context_larger_than_needed"}


def test_most_one_gpu_recordings_name_their_gpu() -> None:
    told = [m for m in ONE_GPU if all(tells_its_gpu(case) for case in recorded(m).cases())]
    assert len(told) > len(ONE_GPU) / 2
