"""Trials become series of clusters of their own, with everything that must fire there."""

from unslow.fleet.alerts import render_annotation, rule_tests, rule_tests_text


def test_each_trial_has_its_own_cluster():
    tests = rule_tests()
    assert len({test.cluster for test in tests}) == len(tests)
    assert all(f'{{cluster="{test.cluster}", ' in name for test in tests for name in test.series)


def test_expected_alerts_have_all_labels(wording):
    one = next(test for test in rule_tests() if test.cluster == "kv_cache_preemption-1")
    assert one.fired[0].alert == "UnslowKvCachePreemption"
    assert one.fired[0].labels == {
        "cluster": "kv_cache_preemption-1", "instance": "10.0.0.7:8000", "job": "vllm", "namespace": "chat",
        "pod": "llm-7", "runtime": "vLLM", "model": "llama", "cause": "kv_cache_preemption", "severity": "warning",
    }  # fmt: skip
    wording(one.fired[0].annotations["description"], tells="15")


def test_trials_beyond_an_hour_are_long():
    long = rule_tests_text(long=True)
    assert "runtime_version_regressed-1" in long
    assert "swapping-1" not in long
    assert "swapping-1" in rule_tests_text()


def test_annotation_templates_render_as_in_prometheus():
    either, where = "{{ or $labels.gpu $labels.uuid }}", "{{ with $labels.model }}({{ . }}){{ end }}"
    template = f"{either} {where}{{{{ $labels.x }}}} {{{{ $value | humanize }}}}"
    assert render_annotation(template, {"uuid": "d-1", "model": "m", "x": "y"}, "3") == "d-1 (m)y 3"
    assert render_annotation(template, {"gpu": "0", "uuid": "d-1"}, "3") == "0  3"
