"""`unslow.watch` inside a program: with a fake model, a recording and a real model."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from doubles import FakeSystem
from fake_transformers import Model, Tensor

import unslow
from unslow.commands.diagnose.target import read_stored
from unslow.facts.errors import UserError
from unslow.facts.values import Absence, Unknown
from unslow.live.transformers import ALREADY, Watch, replay_watch
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder
from unslow.think.judge.judge import diagnose

WATCHED = Path(__file__).parent / "watched_llama"
PROMPT = Tensor((1, 64))


def test_report_is_available_when_the_watch_ends():
    model = Model()
    with unslow.watch(model, quiet=True) as watched:
        for _ in range(3):
            assert model.generate(PROMPT, max_new_tokens=8).shape == (1, 72)
        assert watched.report is None
    (subject,) = watched.report.subjects
    assert subject.runtime.startswith("Transformers")
    assert subject.measured["decode_tokens_per_s"] > 0
    assert "generate" not in vars(model)
    (seen,) = watched.snapshot.subjects
    assert len(seen.run.completions.need()) == 2, "the first call warms up"
    assert seen.runtime.scheduling.running_requests.need() == 1


def test_watch_works_as_a_decorator():
    model, calls = Model(), []

    @unslow.watch(model, quiet=True)
    def program() -> str:
        calls.append(model.generate(PROMPT))
        return "done"

    assert program() == "done"
    assert len(calls) == 1


def test_wrapped_generate_reports_after_every_call():
    model = Model()
    model.generate = unslow.watch(model.generate, quiet=True)
    assert model.generate(PROMPT, max_new_tokens=8).shape == (1, 72)
    first = model.generate.watch.report
    model.generate(PROMPT, max_new_tokens=8)
    assert model.generate.watch.report is not first
    assert len(model.generate.watch.timer.calls) == 2


def test_report_is_printed_to_stderr(capsys):
    model = Model()
    with unslow.watch(model):
        model.generate(PROMPT, max_new_tokens=8)
    out = capsys.readouterr()
    assert out.out == ""
    assert "Transformers" in out.err


def test_failing_program_raises_its_own_error_without_a_report(capsys):
    watched = Watch(Model(fails=True))
    with pytest.raises(RuntimeError, match="out of memory"), watched:
        watched.model.generate(PROMPT)
    assert watched.report is None
    assert capsys.readouterr().err == ""


def test_watch_without_a_generate_call_cannot_tell(wording):
    with unslow.watch(Model(), quiet=True) as watched:
        pass
    run = watched.snapshot.subjects[0].run
    assert isinstance(run.decode_tokens_per_s, Unknown)
    wording(run.decode_tokens_per_s.why, tells="`generate`")
    assert run.decode_tokens_per_s.absence is Absence.NOT_FOUND

    (subject,) = watched.report.subjects
    assert subject.verdict == "cannot_tell"
    wording(subject.summary, tells="`generate`")


def test_pipeline_is_watched_through_its_model():
    model = Model()
    with unslow.watch(SimpleNamespace(model=model), quiet=True) as watched:
        model.generate(PROMPT)
    assert watched.model is model
    assert len(watched.timer.calls) == 1


def test_batched_sequences_are_noted(capsys, wording):
    model = Model()
    with unslow.watch(model):
        model.generate(Tensor((4, 64)), max_new_tokens=8)
    said = " ".join(capsys.readouterr().err.split())
    wording(re.search(r"4 sequences[^.]*", said)[0])


def test_nested_watch_leaves_the_report_to_the_outer_one(capsys):
    model = Model()
    with unslow.watch(model) as outer:
        with unslow.watch(model) as inner:
            model.generate(PROMPT)
        assert capsys.readouterr().err == ALREADY
    assert capsys.readouterr().err.count("Transformers") == 1
    assert len(outer.timer.calls) == len(inner.timer.calls) == 1
    assert "generate" not in vars(model)
    with unslow.watch(model):
        model.generate(PROMPT)
    assert "Transformers" in capsys.readouterr().err, "what ended is forgotten"


def test_use_cache_false_is_recorded_and_noted():
    model = Model()
    with unslow.watch(model, quiet=True) as watched:
        model.generate(PROMPT, use_cache=False)
    cache = watched.snapshot.subjects[0].runtime.cache.prompt_cache
    assert (cache.need(), cache.source) == (False, "generate(use_cache=False)")
    assert any("use_cache" in note for note in watched.report.subjects[0].notes)


def test_watch_is_listed_in_the_package():
    assert {"watch", "__version__"} <= set(dir(unslow))


def test_watching_something_else_is_a_user_error(wording):
    with pytest.raises(UserError) as refused:
        unslow.watch("a model")
    wording(str(refused.value), refused.value.hint, tells="str")


def test_recorded_watch_is_replayed(tmp_path):
    recorder, model = Recorder(LiveSystem(), tmp_path), Model()
    with Watch(model, quiet=True, system=recorder) as watched:
        for _ in range(3):
            model.generate(PROMPT, max_new_tokens=8)
    recorder.close()
    again = replay_watch(RecordedSystem(tmp_path))
    assert again.subjects == watched.snapshot.subjects
    assert read_stored(str(tmp_path)).subjects == watched.snapshot.subjects


def test_recording_of_a_real_model_is_diagnosed_as_normal(wording):
    """Eight layers of a Llama with random weights on two CPUs, watched for four calls."""
    snapshot = read_stored(str(WATCHED))
    (subject,) = snapshot.subjects
    runtime, model, run = subject.runtime, subject.model, subject.run
    assert (runtime.name.need(), runtime.version.need()) == ("Transformers", "5.22.2")
    assert (runtime.compute.attention.need(), runtime.compute.threads.need()) == ("sdpa", 2)
    assert isinstance(runtime.compute.eager, Unknown), "no GPU, no graphs"
    assert {"AVX2", "FMA", "F16C", "AVX"} <= set(runtime.build.features.need())
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need(), model.quant.need()) == (0, 8, "F32")
    wording(runtime.placement.gpu_refused.need(), tells=("CUDA", "ROCm"))
    assert [c.generated_tokens for c in run.completions.need()] == [64, 64, 64]
    assert run.decode_tokens_per_s.need() == pytest.approx(81.4, abs=0.1)
    (report,) = diagnose(snapshot).subjects
    assert report.verdict == "normal"
    assert report.findings == ()


def test_watch_works_without_proc():
    raw = {"calls": [], "model": {"class": "Tiny", "weights": {}}}
    system = FakeSystem(asks={"transformers calls": raw["calls"], "transformers model": raw["model"]})
    snapshot = replay_watch(system)
    assert snapshot.subjects[0].model.name.need() == "Tiny"
    assert isinstance(snapshot.subjects[0].run.own_cpus, Unknown)


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")
def test_real_model_is_watched():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=1000,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, 1000, (2, 16))
    with unslow.watch(model, quiet=True) as watched:
        for _ in range(3):
            model.generate(input_ids=prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    (subject,) = watched.snapshot.subjects
    assert [(c.prompt_tokens, c.generated_tokens) for c in subject.run.completions.need()] == [(16, 12)] * 2
    assert all(c.prefill_s > 0 and c.decode_s > 0 for c in subject.run.completions.need())
    assert subject.runtime.scheduling.running_requests.need() == 2
    assert subject.runtime.placement.layers.need() == 2
    assert subject.model.parameters.need() == sum(p.numel() for p in model.parameters())
    assert subject.model.weights_bytes.need() == sum(p.numel() * p.element_size() for p in model.parameters())
    assert subject.model.heads.need() == 4
    assert "generate" not in vars(model)
