from answers import ask
from cases import cpu_case, gpu_case, with_facts
from seen_live import watched
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "numa_remote_memory"


def fires():
    return pasted(says(Topic.NODE_IMBALANCE, "node 0 had 766 MB free while node 1 idled"))


def test_told_full_node_beside_an_idle_one_is_found():
    report = judge(CaseView(fires()))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME


def test_numactl_trial_gives_the_speedup():
    finding = judge(CaseView(pasted(compares(Topic.NUMA, 4.0, 9.0, "numactl --interleave=all")))).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 2.25


def test_two_nodes_without_a_setting_are_suspected_where_it_is_slow():
    slow = with_facts(cpu_case(), {"machine.memory.numa_nodes": 2, "run.decode_tokens_per_s": 0.5})
    answer = ask(NAME, slow)
    assert isinstance(answer, CannotTell)
    assert "numastat" in answer.how_to_get


def test_one_node_or_full_offload_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.memory.numa_nodes": 1})), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"machine.memory.numa_nodes": 2})), Absent)


def test_nodes_of_a_cluster_are_not_numa_nodes():
    cluster = says(Topic.NODE_IMBALANCE, "node 1 runs the API, node 2 the workers")
    assert isinstance(ask(NAME, pasted(cluster)), CannotTell)


def far(shares: dict[str, float] | None = None, **facts):
    """Two nodes, 40 GiB on the first, and far too slow."""
    two = {"machine.memory.numa_nodes": 2, "machine.cpu.physical_cores": 64, "runtime.compute.threads": 32,
           "runtime.process.bytes_by_node": {"0": 40 * 2**30, "1": 2**30}, "run.decode_tokens_per_s": 0.5}  # fmt: skip
    case = with_facts(cpu_case(), two | {name.replace("__", "."): value for name, value in facts.items()})
    return watched(case, host={f"own_node{node}_share": share for node, share in (shares or {}).items()})


def test_pages_on_one_node_with_threads_on_both_are_found(wording):
    answer = ask(NAME, far({"0": 0.5, "1": 0.5}))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("98%", "50%"))
    assert answer.evidence[0].fact == "runtime.process.bytes_by_node"


def test_more_threads_than_cores_of_a_node_run_on_both_nodes():
    assert isinstance(ask(NAME, far(runtime__compute__threads=64)), Found)
    assert isinstance(ask(NAME, far()), CannotTell)


def test_threads_beside_their_memory_or_spread_pages_are_ruled_out():
    assert isinstance(ask(NAME, far({"0": 0.97, "1": 0.03})), Absent)
    spread = {"0": 20 * 2**30, "1": 21 * 2**30}
    assert isinstance(ask(NAME, far({"0": 0.5, "1": 0.5}, runtime__process__bytes_by_node=spread)), Absent)


def on_one_node(**facts):
    held = {"0": 98 * 10**8, "1": 2 * 10**8}
    threads = {"runtime.compute.threads": 2, "machine.memory.numa_nodes": 2, "run.decode_tokens_per_s": 0.5}
    return with_facts(cpu_case(), threads | {"runtime.process.bytes_by_node": held} | facts)


def test_pages_cached_before_the_numa_setting_are_found(wording):
    case = on_one_node(**{"runtime.compute.numa": "distribute"})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    wording(answer.because, tells="--numa")
    assert "drop_caches" in answer.remedies[0].change.why


def test_speedup_is_at_most_the_number_of_nodes():
    assert 1.5 < ask(NAME, on_one_node()).speedup < 2
