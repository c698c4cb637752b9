import pytest
from cases import with_facts
from told import pasted

from unslow.facts.machine import Machine, System
from unslow.facts.snapshot import Case
from unslow.facts.values import told
from unslow.think.case.gpus import unreached

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
def test_a_variable_hides_it(environment, hidden):
    case = pasted(gpus=["RTX 3060"], runtime=OLLAMA | {"environment": environment})
    assert bool(unreached(case)) is hidden


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
def test_cards_without_code(name, out_of_reach):
    lost = unreached(pasted(gpus=[name], runtime=OLLAMA))
    assert bool(lost) is out_of_reach
    assert lost is None or lost.by_architecture


def test_newer_versions_reach_them_through_vulkan():
    assert unreached(pasted(gpus=["Radeon 780M"], runtime=OLLAMA | {"version": "0.13.0"})) is None
    assert unreached(pasted(gpus=["Radeon 780M"], runtime={"name": "llama.cpp", "version": "b6000"})) is None


def test_a_container_on_a_mac():
    system = System(name=told("macOS", "p:1"), container=told("docker", "p:2"))
    assert unreached(Case(machine=Machine(system=system)))
    assert unreached(Case(machine=Machine(system=System(container=told("docker", "p:2"))))) is None


def test_a_card_of_amd_in_a_mac():
    assert unreached(pasted(gpus=["Radeon Pro Vega 48"], system="macOS", runtime=OLLAMA))
    assert unreached(pasted(gpus=["Apple M1"], system="macOS", runtime=OLLAMA)) is None


def test_a_container_beside_a_card_with_a_name_like_a_chip_of_apple():
    system = {"machine.system.name": "Linux", "machine.system.container": "docker"}
    assert unreached(with_facts(pasted(gpus=["Tesla M40 24GB"]), system)) is None


def test_a_card_that_is_too_old_beside_one_that_is_not():
    assert unreached(pasted(gpus=["Tesla K80"], runtime=OLLAMA)) is not None
    assert unreached(pasted(gpus=["Tesla K80", "RTX 3060"], runtime=OLLAMA)) is None


def test_a_card_that_settings_leave_alone_counts_and_not_the_one_they_hide():
    both = pasted(gpus=["NVIDIA GeForce RTX 3090", "Tesla K80"], runtime=OLLAMA)
    assert unreached(both) is None
    left = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    alone = unreached(pasted(gpus=["NVIDIA GeForce RTX 3090", "Tesla K80"], runtime=OLLAMA | {"environment": left}))
    assert alone is not None
    assert "K80" in alone.why
    assert alone.fact.startswith("machine.gpus.1.")
