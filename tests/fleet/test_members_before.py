"""The past of an engine: earlier pods of its workload count, those of another cluster do not."""

import pytest

from unslow.fleet.engines import Engine, Past
from unslow.fleet.member import engine_readings
from unslow.fleet.members import Before
from unslow.fleet.prometheus.answers import QueryAnswer
from unslow.fleet.queries import Labels


class Silent:
    def answer(self, _):
        return QueryAnswer([])


def pod(name, cluster="a", **labels):
    return {"namespace": "llm", "pod": name, "instance": f"{name}:8000", "cluster": cluster, **labels}


def past(labels, running, gap_s, tokens):
    one = Past(labels)
    told = {"running": running, "token_gap_s_sum": gap_s * tokens, "token_gap_s_count": tokens}
    one.raw = {f"before.{name}": (0, value, "then") for name, value in told.items()}
    return one


def before(engine, *pasts):
    found = Before(Silent(), [engine], pasts, Labels())
    found.give(engine)
    return found, engine_readings(engine.raw, 900.0)


def test_earlier_pods_of_a_workload_are_averaged_by_tokens():
    engine = Engine("vLLM", pod("chat-7d9f8b6c5d-aaaaa"))
    others = (
        past(pod("chat-6c5d7d9f8b-bbbbb"), 2.0, 0.01, 300.0),
        past(pod("chat-6c5d7d9f8b-ccccc"), 6.0, 0.03, 100.0),
    )
    found, told = before(engine, *others)
    assert told["token_gap_before_s"].value == pytest.approx(0.015)
    assert told["running_before"].value == 4.0
    assert found.gone == {"llm/chat": 1}


def test_same_workload_in_another_cluster_has_its_own_past():
    engine = Engine("vLLM", pod("chat-7d9f8b6c5d-aaaaa", version="0.11"))
    far = past(pod("chat-6c5d7d9f8b-bbbbb", "b", version="0.9"), 2.0, 0.01, 300.0)
    found, told = before(engine, far)
    assert "token_gap_before_s" not in told
    assert found.version(engine, None) == ""
    near = past(pod("chat-6c5d7d9f8b-bbbbb", version="0.10"), 2.0, 0.02, 300.0)
    found, told = before(engine, far, near)
    assert told["token_gap_before_s"].value == pytest.approx(0.02)
    assert found.version(engine, None) == "0.10"


def test_own_past_wins_over_the_workload_past():
    engine = Engine("vLLM", pod("chat-0"))
    engine.raw = past(engine.labels, 1.0, 0.05, 100.0).raw
    _, told = before(engine, past(pod("chat-1"), 2.0, 0.01, 300.0))
    assert told["token_gap_before_s"].value == pytest.approx(0.05)
