"""Facts by path: only what is known, what may be a reason, and of several GPUs the one that is worst off."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_fleets import BUSY
from recorded_machines import FOLDERS, first_case, recorded

from unslow.facts import machine, model, run, runtime
from unslow.facts.machine import Gpu
from unslow.facts.values import NOT_LOOKED, not_found, reported_fact
from unslow.fleet import differences
from unslow.fleet.differences import LONGEST_TEXT, MOST_FACTS, flat_facts
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes

EIGHT = "built_vllm_eight_h100_one_of_them_hot"


def of_gpus(*gpus):
    case = first_case(BUSY)
    machine = msgspec.structs.replace(case.machine, gpus=reported_fact(gpus, "test"))
    return flat_facts(msgspec.structs.replace(case, machine=machine))


def gpu(index, **facts):
    return Gpu(index=index, **{name: reported_fact(value, "test") for name, value in facts.items()})


def test_each_flat_path_resolves_to_its_value():
    case = first_case(BUSY)
    facts = flat_facts(case)
    assert facts["machine.gpus.0.power_limit_w"] == CaseView(case).fact("machine.gpus.0.power_limit_w").value
    assert facts["runtime.version"] == case.runtime.version.value
    assert facts["run.traffic.cache_used"] == case.run.traffic.value.cache_used.value


def test_recorded_machines_have_scalar_facts_and_no_names():
    for folder in FOLDERS[::30]:
        for case in recorded(folder).cases():
            facts = flat_facts(case)
            assert len(facts) <= MOST_FACTS
            assert all(isinstance(value, str | int | float) for value in facts.values())
            assert all(len(value) <= LONGEST_TEXT for value in facts.values() if isinstance(value, str))
            assert not {path.rpartition(".")[2] for path in facts} & {"pid", "url", "bus_id", "path", "busy", "index"}


def test_unknown_facts_are_left_out():
    case = first_case(BUSY)
    for unknown in (NOT_LOOKED, not_found("nobody told")):
        runtime = msgspec.structs.replace(case.runtime, version=unknown)
        assert "runtime.version" not in flat_facts(msgspec.structs.replace(case, runtime=runtime))


def test_worst_gpu_represents_the_machine():
    facts = of_gpus(
        gpu(0, temperature_c=50.0, power_limit_w=700.0, driver="570"), gpu(1, temperature_c=88.0, power_limit_w=700.0),
        gpu(2, temperature_c=52.0, power_limit_w=350.0, driver="550"),
    )  # fmt: skip
    assert facts["machine.gpus.1.temperature_c"] == 88.0
    assert facts["machine.gpus.2.power_limit_w"] == 350.0
    assert facts["machine.gpus.2.driver"] == "550"
    assert sum(path.endswith("power_limit_w") for path in facts) == 1


def test_hottest_of_eight_gpus_represents_the_machine():
    facts = flat_facts(first_case(EIGHT))
    hottest = [path for path in facts if path.startswith("run.gpus.") and path.endswith("temperature_max_c")]
    assert len(hottest) == 1
    assert facts[hottest[0]] == max(one.temperature_max_c.value for one in first_case(EIGHT).run.gpus.value)


def test_lists_are_reduced_to_one_value():
    case = first_case(BUSY)
    runtime = case.runtime.with_facts(
        backends=reported_fact(["CUDA", "CPU"], "test"), tensor_overrides=reported_fact([], "test"),
        tensor_split=reported_fact([1.0, 3.0], "test"), quantization=reported_fact("x" * 999, "test"),
    )  # fmt: skip
    run = msgspec.structs.replace(case.run, logged_prompts=reported_fact((10, 900, 30), "test"))
    facts = flat_facts(msgspec.structs.replace(case, runtime=runtime, run=run))
    assert facts["runtime.build.backends"] == "CPU, CUDA"
    assert facts["runtime.placement.tensor_overrides"] == "none"
    assert facts["runtime.placement.tensor_split"] == 2.0
    assert facts["run.logged_prompts"] == 30.0
    assert facts["runtime.compute.quantization"] == "x" * LONGEST_TEXT


@settings(max_examples=20)
@given(st.lists(st.floats(1, 1000), min_size=1, max_size=9))
def test_the_lowest_power_limit_is_kept(limits):
    facts = of_gpus(*(gpu(n, power_limit_w=watts) for n, watts in enumerate(limits)))
    ((path, value),) = [item for item in facts.items() if item[0].endswith("power_limit_w")]
    assert value == min(limits)
    assert path == f"machine.gpus.{limits.index(min(limits))}.power_limit_w"


def test_decided_causes_exist():
    named = {*differences._OF_GPUS.values(), *differences._DECIDES.values()}
    assert named <= set(all_causes())


def test_a_fact_decides_the_cause_that_declares_it():
    assert differences.decided_cause("runtime.compute.eager") == "eager_mode"
    assert differences.decided_cause("machine.cpu.temperature_c") == "cpu_clock_limited"
    assert differences.decided_cause("machine.gpus.temperature_c") == "gpu_thermal_throttling"
    assert differences.decided_cause("machine.system.version") == ""
    assert differences.decided_cause("machine.gpus") == "", "too many causes ask for it"


def test_compared_fact_names_exist():
    """A name that no fact has any more would silently do nothing."""
    kinds = (
        machine.Cpu, machine.Load, machine.Memory, machine.Gpu, machine.System, machine.Disk, run.Run, run.Traffic,
        run.GpuUnderLoad, model.Model,
    )  # fmt: skip
    words = {field.name for kind in kinds for field in msgspec.structs.fields(kind)} | set(runtime.FACT_PATHS)
    assert {*differences.WORSE, *differences._EFFECTS, *differences._IDENTITY} <= words
