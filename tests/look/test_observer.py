"""An observer is notified of measurements in its own thread only."""

import threading

from unslow.look.observer import ObservedAnswer, Observer, current_observer, observed_by
from unslow.look.sampler import Sampler
from unslow.look.system.live import LiveSystem


class Noting(Observer):
    def __init__(self) -> None:
        self.samplers: list[Sampler] = []

    def sampling(self, sampler: Sampler) -> None:
        self.samplers.append(sampler)


def test_observers_nest_and_default_to_none():
    assert current_observer() is None
    watcher = Noting()
    with observed_by(watcher):
        assert current_observer() is watcher
        with observed_by(other := Noting()):
            assert current_observer() is other
        assert current_observer() is watcher
    assert current_observer() is None


def test_an_observer_belongs_to_its_thread():
    seen = []
    with observed_by(Noting()):
        thread = threading.Thread(target=lambda: seen.append(current_observer()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_started_sampler_is_reported_once():
    watcher = Noting()
    with observed_by(watcher), Sampler(LiveSystem(), hz=50) as sampler:
        sampler.start()
    assert watcher.samplers == [sampler]


def test_the_base_observer_ignores_everything():
    watcher = Observer()
    answer = ObservedAnswer("short", 10, 20, 30.0, None)
    assert watcher.on_answer(answer) is None
    assert not watcher.is_stopping
