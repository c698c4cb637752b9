"""Recorded logs of Ollama 0.33: idle, with a failed load, and with a reduced context."""

import pytest
from recorded_machines import MACHINES, recorded

from unslow.facts.values import Known
from unslow.look.logs.ollama import DIALECT
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge


def cases(name: str):
    return list(recorded(MACHINES / f"ollama_0_33_{name}").cases())


def test_models_kept_in_memory_are_not_reloaded():
    for case in cases("three_models_kept"):
        report = judge(CaseView(case))
        assert "to load" not in report.summary
        assert not [part for part in report.budget if part.phase == "load"]
        assert "model_reloads_between_requests" in [ruled.cause for ruled in report.ruled_out]
        assert case.runtime.scheduling.loaded_models.need() == 3
        assert "docker logs" not in str(report)


def test_an_idle_ollama_names_its_models_and_how_to_load_one(wording):
    (case,) = cases("keep_alive_0_idle")
    state = case.runtime.state
    wording(state.why, tells="tiny-t16:latest")
    assert "`OLLAMA_HOST=http://127.0.0.1:11500 ollama run smol:latest hello`" in state.how_to_get


@pytest.mark.parametrize("name", ["keep_alive_0_idle", "client_keep_alive_0_idle"])
def test_keep_alive_0_is_found_as_reloads_between_requests(name, wording):
    (case,) = cases(name)
    report = judge(CaseView(case))
    wording(report.summary, report.findings[0].because)
    assert report.findings[0].cause == "model_reloads_between_requests"


def test_requests_are_counted_for_each_load():
    (case,) = cases("client_keep_alive_0_idle")
    loads = case.runtime.history.loads.need()
    assert [load.requests.need() for load in loads] == [1] * 5
    assert loads[0].used_until == "2026/11/16 17:21:05"
    assert "-b 512" in loads[0].settings
    assert "--port" not in loads[0].settings


def test_a_failed_load_recommends_a_context_that_fits():
    (case,) = cases("context_of_33_million")
    first = judge(CaseView(case)).findings[0].fixes[0]
    assert first.knob == "context_length"
    free, weights = case.machine.memory.available_bytes.need(), case.model.weights_bytes.need()
    assert 0.9 * free < first.value * (1536 + 2 * 2048) + weights < free, "keys and values, and the mask of a batch"


def test_an_excessive_context_without_a_gpu_is_noted(wording):
    (case,) = cases("context_of_2_million")
    wording(judge(CaseView(case)).notes, tells=("2,097,152", "11.1 GiB", "33 MiB"))


def test_a_context_that_ollama_reduces_is_a_contradiction(wording):
    reader = DIALECT.start()
    warning = (
        "time=2026-11-16T17:23:01.176Z level=WARN source=server.go:114 "
        'msg="requested context size too large for model" num_ctx=1048576 n_ctx_train=8192'
    )
    start = (
        "time=2026-11-16T17:23:01.180Z level=INFO source=llama_server.go:433 "
        'msg="starting llama-server" cmd="/opt/llama-server --model /m/blobs/sha256-ab --port 4 -c 8192"'
    )
    for number, line in enumerate((warning, start)):
        reader.take(line, f"log:{number}")
    (cut,) = reader.log_facts("log").subject.contradictions
    assert cut.about == "context_length"
    wording(cut.statements[0].says, tells="1048576")


def test_a_load_cancelled_by_its_client_is_not_a_failed_state():
    reader = DIALECT.start()
    lines = (
        'level=INFO source=llama_server.go:433 msg="starting llama-server" cmd="llama-server --model /m/a --port 4"',
        'level=INFO source=sched.go:641 msg="Load failed" model=/m/a error="timed out: context canceled"',
    )
    for number, line in enumerate(lines):
        reader.take(line, f"log:{number}")
    runtime = reader.log_facts("log").subject.runtime
    assert not isinstance(runtime.state, Known)
    assert [load.failed for load in runtime.history.loads.need()] == [True]
