"""A recorded real server replays to the same facts; masking breaks no answer."""

from unslow.look.engine import start_engine
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.runtimes.llama_cpp import read_url, with_log
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder


def read(system, url, log_path):
    [subject] = read_url(system, url, "")
    return with_log(system, subject, log_path)


def test_a_recorded_server_replays_to_the_same_facts(tmp_path):
    live = LiveSystem()
    path = ModelCache(tmp_path / "models").model("tiny")
    with start_engine(live, str(path)) as engine:
        recorder = Recorder(live, tmp_path / "rec")
        seen = read(recorder, engine.url, engine.log_path)
        recorder.close()
        again = read(RecordedSystem(tmp_path / "rec"), engine.url, engine.log_path)
    assert again == seen
    assert seen.runtime.scheduling.slots.need() >= 1
    assert seen.model.vocabulary.need() > 0
