from answers import ask
from cases import cpu_case, gpu_case, with_facts
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.think.causes._cause import Absent, CannotTell
from unslow.think.judge import judge

NAME = "numa_remote_memory"


def fires():
    return pasted(says(Topic.NODE_IMBALANCE, "node 0 had 766 MB free while node 1 idled"))


def test_one_node_is_full_and_the_other_idle():
    report = judge(fires())
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME


def test_an_experiment_gives_the_price():
    finding = judge(pasted(compares(Topic.NUMA, 4.0, 9.0, "numactl --interleave=all"))).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 2.25


def test_two_nodes_without_a_setting_are_a_suspicion_where_it_is_slow():
    slow = with_facts(cpu_case(), {"machine.memory.numa_nodes": 2, "run.decode_tokens_per_s": 0.5})
    answer = ask(NAME, slow)
    assert isinstance(answer, CannotTell)
    assert "numastat" in answer.how_to_get


def test_one_node_has_no_far_side_and_a_gpu_no_need():
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.memory.numa_nodes": 1})), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"machine.memory.numa_nodes": 2})), Absent)


def test_nodes_of_a_cluster_are_no_memory_nodes():
    cluster = says(Topic.NODE_IMBALANCE, "node 1 runs the API, node 2 the workers")
    assert isinstance(ask(NAME, pasted(cluster)), CannotTell)
