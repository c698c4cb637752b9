"""Every replayable runtime over real HTTP: identified by its URL, measured with its own API, its key not shown."""

import pytest
from doubles import Quiet
from lab.replay import serve
from measured_alone import measured_subject

from unslow.commands._formats import Looking
from unslow.commands.diagnose.request import QUICK
from unslow.commands.diagnose.runtimes import subjects_at_url
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem

KEY = "sk-canary-5f3a9c17"
FAST = 4000.0
SPEED, MOMENT = QUICK._replace(only=("speed",)), QUICK._replace(seconds=3.0, only=("traffic",))
RUNTIMES = {"ollama": "Ollama", "lm_studio": "LM Studio", "vllm": "vLLM", "sglang": "SGLang"}


@pytest.mark.parametrize(("replayed", "name"), RUNTIMES.items())
def test_runtime_is_identified_by_its_url(replayed, name):
    with serve(replayed, tokens_per_s=FAST) as url:
        subjects = subjects_at_url(LiveSystem(), url, "")
    assert {subject.runtime.name.need() for subject in subjects} == {name}
    assert {subject.runtime.process.url.need() for subject in subjects} == {url}
    assert all(subject.runtime.state.need() == "loaded" for subject in subjects)


@pytest.mark.parametrize("replayed", ["ollama", "lm_studio", "vllm"])
def test_speed_is_measured_with_the_runtimes_own_api(replayed):
    with serve(replayed, tokens_per_s=FAST) as url:
        subject = subjects_at_url(LiveSystem(), url, "")[0]
        run = measured_subject(LiveSystem(), subject, Looking(evict=True), Quiet(), SPEED).run
    assert 100 < run.decode_tokens_per_s.need() < 40_000
    assert ("server" if replayed == "ollama" else "client clock") in run.decode_tokens_per_s.source


def test_busy_server_is_only_observed():
    progress = Quiet()
    with serve("sglang", tokens_per_s=FAST) as url:
        subject = subjects_at_url(LiveSystem(), url, "")[0]
        run = measured_subject(LiveSystem(), subject, Looking(evict=True), progress, MOMENT).run
    assert "busy with" in run.decode_tokens_per_s.why
    assert "observing only" in progress.said[0]


@pytest.mark.parametrize("replayed", RUNTIMES)
def test_api_key_is_sent_and_never_shown(replayed):
    progress = Quiet()
    with serve(replayed, tokens_per_s=FAST, api_key=KEY) as url:
        with pytest.raises(UserError) as caught:
            subjects_at_url(LiveSystem(), url, "sk-canary-of-another")
        assert "canary" not in caught.value.message + caught.value.hint
        subjects = subjects_at_url(LiveSystem(), url, KEY)
        seen = [
            measured_subject(LiveSystem(), s, Looking(evict=True, api_key=KEY), progress, SPEED) for s in subjects[:1]
        ]
    assert seen[0].runtime.state.need() == "loaded"
    assert KEY not in repr(seen) + "\n".join(progress.said)
