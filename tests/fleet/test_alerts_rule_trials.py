"""Trials become series of clusters of their own, with everything that must fire there."""

from unslow.fleet.alerts import rendered, rule_tests


def test_each_trial_has_a_cluster_of_its_own():
    tests = rule_tests()
    assert len({test.cluster for test in tests}) == len(tests)
    assert all(f'{{cluster="{test.cluster}", ' in name for test in tests for name in test.series)


def test_what_must_fire_has_all_labels(wording):
    one = next(test for test in rule_tests() if test.cluster == "kv_cache_preemption-1")
    assert one.fired[0].alert == "UnslowKvCachePreemption"
    assert one.fired[0].labels == {
        "cluster": "kv_cache_preemption-1", "instance": "10.0.0.7:8000", "job": "vllm", "namespace": "chat",
        "pod": "llm-7", "runtime": "vLLM", "model": "llama", "cause": "kv_cache_preemption", "severity": "warning",
    }  # fmt: skip
    wording(one.fired[0].annotations["description"], tells="15")


def test_a_day_is_long_and_half_an_hour_is_not():
    long = {test.cluster for test in rule_tests() if test.is_long}
    assert "runtime_version_regressed-1" in long
    assert "swapping-1" not in long


def test_templates_are_filled_as_prometheus_does():
    either, where = "{{ or $labels.gpu $labels.uuid }}", "{{ with $labels.model }}({{ . }}){{ end }}"
    template = f"{either} {where}{{{{ $labels.x }}}} {{{{ $value | humanize }}}}"
    assert rendered(template, {"uuid": "d-1", "model": "m", "x": "y"}, "3") == "d-1 (m)y 3"
    assert rendered(template, {"gpu": "0", "uuid": "d-1"}, "3") == "0  3"
