from unslow.fleet.capacity.curves import Whose
from unslow.fleet.labels import shown_label
from unslow.fleet.member import Member


def member(key, **labels):
    return Member(key=key, runtime="vLLM", window_s=900.0, labels=labels)


def test_a_curve_belongs_to_the_target_with_its_labels():
    whose = Whose([member("a", job="vllm", instance="a:8000"), member("b", job="vllm", instance="b:8000")])
    assert whose.key({"job": "vllm", "instance": "b:8000", "prometheus_replica": "1"}) == "b"
    assert whose.key({"job": "vllm", "instance": "gone:8000"}) == ""
    assert whose.key({"job": "vllm", "instance": "gone:8000"}) == ""
    assert len(whose.strangers) == 1


def test_a_second_job_that_scrapes_the_same_is_the_same():
    whose = Whose([member("a", job="vllm", instance="a:8000")])
    assert whose.key({"job": "pods", "instance": "a:8000"}) == "a"


def test_addresses_that_two_clusters_share_are_told_apart():
    whose = Whose(
        [member("one", cluster="one", instance="10.0.0.1:80"), member("two", cluster="two", instance="10.0.0.1:80")]
    )
    assert whose.key({"cluster": "two", "instance": "10.0.0.1:80"}) == "two"
    assert whose.key({"instance": "10.0.0.1:80"}) == ""  # which of them, nobody knows


def test_labels_that_say_nothing_belong_to_nobody():
    assert Whose([member("a")]).key({}) == ""


def test_a_label_that_is_shown_otherwise_is_the_same():
    for written in ("https://user:hunter2hunter2@a:80", "x" * 200, "a\x1bb:80"):
        whose = Whose([member("a", instance=shown_label(written)), member("b", instance="b:80")])
        assert whose.key({"instance": written}) == "a"
