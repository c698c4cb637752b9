import msgspec
import pytest
from lab.replay import serve
from plans import option, plan

from unslow.commands.apply.prepare import _is_model, running_server
from unslow.facts.errors import UserError
from unslow.facts.model import Model
from unslow.facts.snapshot import Subject
from unslow.facts.values import reported_fact
from unslow.look.system.live import LiveSystem


def test_running_server_with_the_planned_model_is_found():
    with serve("ollama") as url:
        found = running_server(LiveSystem(), plan("ollama", "llama3.2:3b", option("x")), url, "")
        assert found is not None
        assert found.model.name.value_or("") == "llama3.2:3b"


def test_plan_for_another_model_or_runtime_is_refused():
    with serve("ollama") as url:
        with pytest.raises(UserError, match=r"runs qwen3:8b, llama3\.2:3b"):
            running_server(LiveSystem(), plan("ollama", "gemma3:27b", option("x")), url, "")
        with pytest.raises(UserError, match="the plan is for vllm"):
            running_server(LiveSystem(), plan("vllm", "qwen3:8b", option("x")), url, "")


def test_url_in_the_plan_selects_the_server():
    made = plan("ollama", "llama3.2:3b", option("x"))
    with serve("ollama") as url:
        found = running_server(LiveSystem(), msgspec.structs.replace(made, url=url), None, "")
        assert found is not None
        assert found.runtime.process.url.value_or("") == url
    for gone in (url, "http://192.0.2.1:11434"):  # nobody is asked who is not here
        assert running_server(LiveSystem(), msgspec.structs.replace(made, url=gone), None, "") is None


def test_invalid_target_is_refused():
    for target, why in (("nonsense", "not a process id"), ("4194303", "process 4194303 is not a visible runtime")):
        with pytest.raises(UserError, match=why):
            running_server(LiveSystem(), plan("ollama", "m", option("x")), target, "")


def test_model_matches_by_name_or_path():
    subject = Subject(
        model=Model(name=reported_fact("Qwen3 8B", "x"), path=reported_fact("/m/qwen3-8b-Q4_K_M.gguf", "x"))
    )
    assert _is_model(subject, "qwen3-8b")
    assert _is_model(subject, "/m/qwen3-8b-Q4_K_M.gguf")
    assert not _is_model(subject, "qwen3-14b")
    assert not _is_model(Subject(), "qwen3-14b")
