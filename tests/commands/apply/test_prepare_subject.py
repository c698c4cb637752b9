import msgspec
import pytest
from lab.replay import serve
from plans import option, plan

from unslow.commands.apply.prepare import _is_model, running_server
from unslow.facts.errors import UserError
from unslow.facts.model import Model
from unslow.facts.snapshot import Subject
from unslow.facts.values import reported
from unslow.look.system.live import LiveSystem


def test_the_server_with_the_model_of_the_plan_is_found():
    with serve("ollama") as url:
        found = running_server(LiveSystem(), plan("ollama", "llama3.2:3b", option("x")), url, "")
        assert found is not None
        assert found.model.name.value_or("") == "llama3.2:3b"


def test_a_plan_for_another_model_or_runtime_is_not_for_this_server():
    with serve("ollama") as url:
        with pytest.raises(UserError, match=r"runs qwen3:8b, llama3\.2:3b"):
            running_server(LiveSystem(), plan("ollama", "gemma3:27b", option("x")), url, "")
        with pytest.raises(UserError, match="not vllm"):
            running_server(LiveSystem(), plan("vllm", "qwen3:8b", option("x")), url, "")


def test_the_address_that_the_plan_was_made_for_says_which():
    made = plan("ollama", "llama3.2:3b", option("x"))
    with serve("ollama") as url:
        found = running_server(LiveSystem(), msgspec.structs.replace(made, url=url), None, "")
        assert found is not None
        assert found.runtime.url.value_or("") == url
    for gone in (url, "http://192.0.2.1:11434"):  # nobody is asked who is not here
        assert running_server(LiveSystem(), msgspec.structs.replace(made, url=gone), None, "") is None


def test_what_is_no_target_is_said():
    for target, why in (("nonsense", "no process id"), ("4194303", "no runtime")):
        with pytest.raises(UserError, match=why):
            running_server(LiveSystem(), plan("ollama", "m", option("x")), target, "")


def test_models_by_name_or_file():
    subject = Subject(model=Model(name=reported("Qwen3 8B", "x"), path=reported("/m/qwen3-8b-Q4_K_M.gguf", "x")))
    assert _is_model(subject, "qwen3-8b")
    assert _is_model(subject, "/m/qwen3-8b-Q4_K_M.gguf")
    assert not _is_model(subject, "qwen3-14b")
    assert not _is_model(Subject(), "qwen3-14b")
