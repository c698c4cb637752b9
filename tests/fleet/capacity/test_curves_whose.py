from unslow.fleet.capacity.curves import CurveOwners
from unslow.fleet.labels import shown_label
from unslow.fleet.member import Member


def member(key, **labels):
    return Member(key=key, runtime="vLLM", window_s=900.0, labels=labels)


def test_a_curve_belongs_to_the_target_with_its_labels():
    whose = CurveOwners([member("a", job="vllm", instance="a:8000"), member("b", job="vllm", instance="b:8000")])
    assert whose.key({"job": "vllm", "instance": "b:8000", "prometheus_replica": "1"}) == "b"
    assert whose.key({"job": "vllm", "instance": "gone:8000"}) == ""
    assert whose.key({"job": "vllm", "instance": "gone:8000"}) == ""
    assert len(whose.unmatched) == 1


def test_second_job_on_the_same_target_is_the_same_member():
    whose = CurveOwners([member("a", job="vllm", instance="a:8000")])
    assert whose.key({"job": "pods", "instance": "a:8000"}) == "a"


def test_same_address_in_two_clusters_is_two_members():
    whose = CurveOwners(
        [member("one", cluster="one", instance="10.0.0.1:80"), member("two", cluster="two", instance="10.0.0.1:80")]
    )
    assert whose.key({"cluster": "two", "instance": "10.0.0.1:80"}) == "two"
    assert whose.key({"instance": "10.0.0.1:80"}) == ""  # which of them, nobody knows


def test_uninformative_labels_match_no_member():
    assert CurveOwners([member("a")]).key({}) == ""


def test_cleaned_label_still_matches_its_member():
    for written in ("https://user:hunter2hunter2@a:80", "x" * 200, "a\x1bb:80"):
        whose = CurveOwners([member("a", instance=shown_label(written)), member("b", instance="b:80")])
        assert whose.key({"instance": written}) == "a"
