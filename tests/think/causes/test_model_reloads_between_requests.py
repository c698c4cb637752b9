import msgspec
from answers import ask
from cases import r, with_facts
from made_up_telemetry import traffic
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.think.case.waits import reload_s
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "model_reloads_between_requests"


def loaded(*contexts: int, models: str = ""):
    loads = [
        PastLoad(model=r(models[i] if models else "a"), context_length=r(c), source=f"log:{i}")
        for i, c in enumerate(contexts)
    ]
    return with_facts(Case(), {"runtime.loads": loads})


def fires():
    return loaded(8192, 2048, 8192, 2048)


def test_two_contexts_in_turn(wording):
    report = judge(fires())
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("2048", "8192"))
    assert report.findings[0].evidence[0].source == "log:0"


def test_near_miss_the_first_request_loads():
    assert isinstance(ask(NAME, loaded(8192)), Absent)
    assert isinstance(ask(NAME, loaded(8192, 8192)), Absent)


def test_one_change_of_mind_among_many_loads_is_a_suspicion():
    answer = ask(NAME, loaded(8192, 8192, 8192, 4096))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_models_that_take_turns():
    assert isinstance(ask(NAME, loaded(8192, 8192, 8192, models="aba")), Found)


def test_a_model_that_is_never_kept():
    unkept = with_facts(Case(), {"runtime.keep_alive_s": 0.0})
    assert isinstance(ask(NAME, saying(slow="first_token", case=unkept)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=unkept)), CannotTell)


def test_what_somebody_saw():
    assert isinstance(ask(NAME, saying(Topic.RELOADS, "the runner restarts for every title")), Found)
    assert isinstance(ask(NAME, saying()), CannotTell)
    helped = ask(NAME, saying(Topic.RELOADS, "after the server is restarted it is fast", slow="decode"))
    assert isinstance(helped, CannotTell)
    assert helped.suspected


def watched(loads: int, **facts):
    return with_facts(Case(), {"run.traffic": traffic(1.0, 0.0, loads=r(loads)), **facts})


def test_models_that_came_while_it_was_watched():
    answer = ask(NAME, watched(3, **{"run.load_s": 12.0}))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == 12.0
    once = ask(NAME, watched(1))
    assert isinstance(once, CannotTell)
    assert once.suspected
    assert isinstance(ask(NAME, watched(1, **{"runtime.keep_alive_s": 0.0})), Found)


def test_near_miss_nothing_was_loaded_while_it_was_watched():
    assert not isinstance(ask(NAME, watched(0)), Found)


def test_a_live_server_that_keeps_nothing_and_was_seen_to_load():
    unkept = {"runtime.keep_alive_s": 0.0, "runtime.url": "http://127.0.0.1:11434", "run.load_s": 9.0}
    assert isinstance(ask(NAME, with_facts(Case(), unkept)), Found)


def started(*words: str, **facts):
    own = {"runtime.name": "llama.cpp", "runtime.command": ["llama-server", *words], "runtime.environment": {}}
    return with_facts(Case(), own | facts)


def test_near_miss_a_server_with_one_model_that_it_keeps():
    assert isinstance(ask(NAME, started("-m", "m.gguf")), Absent)
    assert isinstance(ask(NAME, started("-m", "m.gguf", "--sleep-idle-seconds", "5")), CannotTell)
    assert isinstance(ask(NAME, started("--models-dir", "models")), CannotTell)
    assert isinstance(ask(NAME, started("-m", "m.gguf", **{"runtime.front": "llama-swap http://x:1"})), CannotTell)


def spread(*moments: str):
    loads = [PastLoad(at=at, model=r("ab"[n % 2]), source=f"log:{n}") for n, at in enumerate(moments)]
    return with_facts(Case(), {"runtime.loads": loads})


def test_near_miss_models_that_take_turns_with_hours_between():
    day = "2026-01-01T"
    assert isinstance(ask(NAME, spread(*(f"{day}{hour}:01:00.000+01:00" for hour in ("07", "09", "15", "20")))), Absent)
    assert isinstance(ask(NAME, spread(*(f"{day}10:0{n}:00.000+01:00" for n in range(4)))), Found)
    assert isinstance(ask(NAME, spread("2026/01/01 07:01:00", "2026/01/02 07:01:00", "2026/01/03 07:01:00")), Absent)
    assert isinstance(ask(NAME, spread("10:01", "18:30", "19:00")), Found), "without a day nobody knows of a pause"


def test_what_a_request_waits_for_is_no_load_of_another_hour():
    hours = spread(*(f"2026-01-01T{hour}:01:00" for hour in ("07", "09", "15", "20")))
    assert reload_s(with_facts(hours, {"run.load_s": 2.4})) is None


def of_ollama(*loads: tuple[str, str], **facts):
    """Loads of files at times of one day, each for one request that was answered two seconds later."""
    past = [
        PastLoad(
            at=f"2026-01-01T{at}Z", model=r(file), context_length=r(4096), seconds=r(2.0), requests=r(1),
            used_until=f"2026/01/01 {at[:-2]}{int(at[-2:]) + 2:02}", source=f"log:{n}",
        )
        for n, (file, at) in enumerate(loads)
    ]  # fmt: skip
    known = {"runtime.name": "Ollama", "runtime.keep_alive_s": 300.0, "runtime.loads": past}
    return with_facts(Case(), known | facts)


def changed(case: Case, **facts) -> Case:
    """All loads with other facts."""
    loads = [msgspec.structs.replace(load, **facts) for load in case.runtime.loads.need()]
    return with_facts(case, {"runtime.loads": loads})


AGAIN = (("a", "10:00:00"), ("a", "10:00:10"), ("a", "10:00:20"))


def test_near_miss_three_models_each_loaded_once(wording):
    answer = ask(NAME, of_ollama(("a", "10:00:00"), ("b", "10:00:10"), ("c", "10:00:20")))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_near_miss_one_slow_first_load():
    slow = changed(of_ollama(AGAIN[0]), seconds=r(40.0))
    assert isinstance(ask(NAME, with_facts(slow, {"run.load_s": 40.0})), Absent)
    assert reload_s(slow) is None


def test_a_client_that_keeps_nothing(wording):
    case = of_ollama(*AGAIN)
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    wording(answer.because)
    assert [remedy.change for remedy in answer.remedies] == [
        Change(Knob.KEEP_ALIVE, None, answer.remedies[0].change.why)
    ]
    assert answer.lost.seconds == reload_s(case) == 2.0


def test_a_load_of_another_model_is_no_price_of_this_one():
    case = with_facts(of_ollama(("b", "09:59:00"), *AGAIN), {"model.path": "a"})
    slow = [msgspec.structs.replace(case.runtime.loads.need()[0], seconds=r(90.0)), *case.runtime.loads.need()[1:]]
    assert reload_s(with_facts(case, {"runtime.loads": slow})) == 2.0


def test_near_miss_somebody_stopped_it_on_purpose():
    assert isinstance(ask(NAME, changed(of_ollama(*AGAIN), stopped=True)), Absent)


def test_near_miss_loads_that_failed_or_of_a_server_that_started_anew():
    assert isinstance(ask(NAME, changed(of_ollama(*AGAIN), failed=True)), Absent)
    assert isinstance(ask(NAME, changed(of_ollama(*AGAIN), after_start=True)), Absent)


def test_near_miss_many_requests_for_each_load():
    case = changed(of_ollama(*AGAIN), requests=r(20))
    assert isinstance(ask(NAME, case), Absent)
    assert reload_s(case) is None


def test_some_requests_wait_and_not_every_one(wording):
    case = changed(of_ollama(*AGAIN), requests=r(4))
    assert isinstance(ask(NAME, case), Found)
    assert reload_s(case) is None
    report = judge(case)
    wording(report.summary, tells="2 s")
    assert report.findings[0].cost.seconds == 0.5


def test_near_miss_requests_that_come_after_its_time(wording):
    late = (("a", "10:00:00"), ("a", "10:10:00"), ("a", "10:20:00"))
    assert isinstance(ask(NAME, of_ollama(*late)), Absent)
    short = ask(NAME, of_ollama(*late, **{"runtime.keep_alive_s": 10.0}))
    assert isinstance(short, Found)
    wording(short.because, tells="10 s")


def test_near_miss_all_models_that_took_turns_are_loaded_at_once():
    turns = of_ollama(("a", "10:00:00"), ("b", "10:00:10"), ("a", "10:00:20"), ("b", "10:00:30"))
    assert isinstance(ask(NAME, turns), Found)
    assert isinstance(ask(NAME, with_facts(turns, {"runtime.loaded_models": 2})), Absent)


def test_requests_with_other_options_in_turn(wording):
    case = of_ollama(*AGAIN, ("a", "10:00:30"))
    flags = ["-b 512", "-b 512 -t 16"] * 2
    loads = [
        msgspec.structs.replace(load, settings=words)
        for load, words in zip(case.runtime.loads.need(), flags, strict=True)
    ]
    answer = ask(NAME, with_facts(case, {"runtime.loads": loads}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="-t 16")
    assert answer.remedies[0].change.knob is Knob.THREADS


def test_a_variable_that_keeps_nothing_is_named_between_requests():
    idle = of_ollama(*AGAIN, **{"runtime.keep_alive_s": 0.0})
    answer = ask(NAME, idle)
    assert isinstance(answer, Found)
    assert "keep_alive is 0" in answer.because
    assert answer.remedies[0].change.value == -1
    assert reload_s(idle) == 2.0
