"""A request longer than the context is refused before anything is started."""

from pathlib import Path

import pytest
from doubles import Quiet

from unslow.catalog.architectures import made_up_shapes
from unslow.commands.bench.server import Place
from unslow.commands.verify import VerifyRequest, comparison
from unslow.commands.verify.comparison import verify
from unslow.commands.verify.server import MeasuredServer, check_room, context_of_command
from unslow.facts.errors import UserError
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import reported_fact
from unslow.facts.verification import Work
from unslow.look.engine.made_up_models import planned_model, write_model
from unslow.look.launch.command import parse_command
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.system.live import LiveSystem

LIVE = LiveSystem()
HERE = Place(LIVE, Snapshot(unslow_version="1", taken_at=""))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    with path.open("wb") as file:
        write_model(planned_model(made_up_shapes()["tiny"], "Q4_K_M", "made-up tiny"), file)
    return path


@pytest.mark.parametrize(
    ("line", "context"),
    [
        ("llama-server -m none.gguf -c 2048", 2048),
        ("llama-server -m none.gguf --ctx-size=512 -c 1024", 1024),
        ("LLAMA_ARG_CTX_SIZE=300 llama-server -m none.gguf", 300),
        ("llama-server -m none.gguf -c 0", None),
        ("llama-server -m none.gguf -c many", None),
        ("llama-server -hf some/model", None),
        ("vllm serve m --max-model-len 4096", 4096),
        ("vllm serve m --max-model-len=8192", 8192),
        ("vllm serve m", None),
        ("mlx_lm.server --model m", None),
    ],
)
def test_context_is_parsed_from_a_command(line, context):
    assert context_of_command(LIVE, parse_command(line)) == context


def test_context_is_limited_by_the_trained_context(model):
    trained = model_facts(read_gguf(LIVE, str(model))).context_trained.value_or(0)
    assert trained > 0
    for words in ("", "-c 0", f"-c {trained * 2}"):
        assert context_of_command(LIVE, parse_command(f"llama-server -m {model} {words}")) == trained
    assert context_of_command(LIVE, parse_command(f"llama-server -m {model} -c 64")) == 64
    longer = f"llama-server -m {model} -c {trained * 2} --override-kv llama.context_length=int:{trained * 2}"
    assert context_of_command(LIVE, parse_command(longer)) == trained * 2


def test_request_that_does_not_fit_is_refused_before_any_start(monkeypatch, wording):
    monkeypatch.setattr(comparison, "place_of", lambda *_: HERE)
    lines = {"before": "llama-server -m x.gguf -c 8192", "after": "llama-server -m x.gguf -c 2048 -fa on"}
    with pytest.raises(UserError) as told:
        verify(VerifyRequest(**lines, prompt=3000, kept=1000, answer=64), Quiet())
    wording(told.value.message, tells=("1,000", "3,000", "64"))
    assert "--prompt" in told.value.hint
    with pytest.raises(UserError, match="do not fit"):
        verify(VerifyRequest(after=lines["after"], save="unused.json", prompt=3000), Quiet())


def test_context_of_a_running_server_is_checked(wording):
    runtime = Runtime().with_facts(
        url=reported_fact("http://127.0.0.1:1", "x"), context_per_slot=reported_fact(1024, "x")
    )
    place = Place(LIVE, Snapshot(unslow_version="1", taken_at="", subjects=(Subject(runtime=runtime),)))
    party = MeasuredServer("http://127.0.0.1:1", place)
    check_room(party, place, Work(prompt_tokens=896, answer_tokens=128))
    with pytest.raises(UserError) as caught:
        check_room(party, place, Work(prompt_tokens=897, answer_tokens=128))
    wording(str(caught.value), tells="1,024")
    check_room(MeasuredServer("http://127.0.0.1:1", HERE), HERE, Work(prompt_tokens=10**6))
