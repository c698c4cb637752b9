import pytest
from cases import with_facts
from told import pasted

from unslow.facts.machine import Machine, System
from unslow.facts.snapshot import Case
from unslow.facts.values import told_fact
from unslow.think.case.view import CaseView

OLLAMA = {"name": "Ollama", "version": "0.6.8"}


@pytest.mark.parametrize(
    ("environment", "hidden"),
    [
        ({"CUDA_VISIBLE_DEVICES": "-1"}, True),
        ({"HIP_VISIBLE_DEVICES": ""}, True),
        ({"OLLAMA_LLM_LIBRARY": "cpu_avx2"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0"}, False),
        ({"OLLAMA_LLM_LIBRARY": "cuda_v12"}, False),
    ],
)
def test_environment_variable_hides_the_gpu(environment, hidden):
    case = pasted(gpus=["RTX 3060"], runtime=OLLAMA | {"environment": environment})
    assert bool(CaseView(case).gpus.unreachable) is hidden


@pytest.mark.parametrize(
    ("name", "out_of_reach"),
    [
        ("Tesla K80", True),
        ("Quadro K2000M", True),
        ("NVIDIA GeForce GTX 780 Ti", True),
        ("NVIDIA GeForce GTX 660 Ti", True),
        ("NVIDIA GeForce GTX 750", False),
        ("NVIDIA GeForce GTX 745", False),
        ("Quadro K620", False),
        ("Quadro K2200", False),
        ("Tesla M40 24GB", False),
        ("Radeon 780M", True),
        ("RX 580", True),
        ("RX 7900 XTX", False),
        ("RX 6800 XT", False),
        ("RTX 3090", False),
        ("GTX 1060", False),
        ("Tesla P40", False),
    ],
)
def test_gpus_without_compiled_kernels_are_unreached(name, out_of_reach):
    lost = CaseView(pasted(gpus=[name], runtime=OLLAMA)).gpus.unreachable
    assert bool(lost) is out_of_reach
    assert lost is None or lost.by_architecture


def test_newer_versions_reach_them_through_vulkan():
    assert CaseView(pasted(gpus=["Radeon 780M"], runtime=OLLAMA | {"version": "0.13.0"})).gpus.unreachable is None
    assert (
        CaseView(pasted(gpus=["Radeon 780M"], runtime={"name": "llama.cpp", "version": "b6000"})).gpus.unreachable
        is None
    )


def test_container_on_a_mac_has_no_gpu():
    system = System(name=told_fact("macOS", "p:1"), container=told_fact("docker", "p:2"))
    assert CaseView(Case(machine=Machine(system=system))).gpus.unreachable
    assert CaseView(Case(machine=Machine(system=System(container=told_fact("docker", "p:2"))))).gpus.unreachable is None


def test_amd_gpu_in_a_mac_is_unreached():
    assert CaseView(pasted(gpus=["Radeon Pro Vega 48"], system="macOS", runtime=OLLAMA)).gpus.unreachable
    assert CaseView(pasted(gpus=["Apple M1"], system="macOS", runtime=OLLAMA)).gpus.unreachable is None


def test_tesla_m40_in_a_container_is_not_apple():
    system = {"machine.system.name": "Linux", "machine.system.container": "docker"}
    assert CaseView(with_facts(pasted(gpus=["Tesla M40 24GB"]), system)).gpus.unreachable is None


def test_old_gpu_beside_a_supported_one_is_ignored():
    assert CaseView(pasted(gpus=["Tesla K80"], runtime=OLLAMA)).gpus.unreachable is not None
    assert CaseView(pasted(gpus=["Tesla K80", "RTX 3060"], runtime=OLLAMA)).gpus.unreachable is None


def test_hidden_gpu_does_not_count_as_reachable():
    both = pasted(gpus=["NVIDIA GeForce RTX 3090", "Tesla K80"], runtime=OLLAMA)
    assert CaseView(both).gpus.unreachable is None
    left = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    alone = CaseView(
        pasted(gpus=["NVIDIA GeForce RTX 3090", "Tesla K80"], runtime=OLLAMA | {"environment": left})
    ).gpus.unreachable
    assert alone is not None
    assert "K80" in alone.why
    assert alone.fact.startswith("machine.gpus.1.")
