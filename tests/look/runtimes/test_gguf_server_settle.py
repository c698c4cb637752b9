import pytest

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Origin, estimated, failed, not_found, reported
from unslow.look.runtimes._gguf_server import exact_model, settled_subject
from unslow.look.runtimes._gguf_settings import build_number, oldest_possible


def test_the_log_decides_the_command_line_asks_and_the_server_is_current():
    asked = Runtime(context_set=reported(8192, "argv"), batch=estimated(2048, "default"), slots=reported(2, "argv"))
    http = Subject(runtime=Runtime(state=reported("loaded", "http"), slots=reported(4, "http")))
    log = Subject(
        runtime=Runtime(
            state=reported("failed", "log"),
            slots=reported(3, "log"),
            batch=reported(512, "log"),
            context_set=reported(1, "log"),
        )
    )
    runtime = settled_subject(asked, http, log).runtime
    assert (runtime.state.need(), runtime.slots.need()) == ("loaded", 4)
    assert (runtime.batch.need(), runtime.context_set.need()) == (512, 8192)


def test_an_exact_size_is_not_replaced_by_a_rounded_one():
    told = Model(weights_bytes=reported(100, "http"), name=reported("a.gguf", "http"))
    rounded = Model(weights_bytes=estimated(99, "log"), name=reported("a", "log"), parameters=estimated(7, "log"))
    model = exact_model(told, rounded)
    assert (model.weights_bytes.need(), model.name.need(), model.parameters.need()) == (100, "a", 7)


@pytest.mark.parametrize(
    ("version", "fit"), [("b7407-abc", True), ("b7406-abc", None), ("b0-unknown", None), ("x", None)]
)
def test_the_fit_is_on_by_default_in_builds_that_have_it(version, fit):
    asked = Runtime(fit=not_found("-fit was not given"))
    runtime = settled_subject(asked, Subject(runtime=Runtime(version=reported(version, "props"))), Subject()).runtime
    assert runtime.fit.value_or(None) is fit


def test_an_unreadable_environment_leaves_the_fit_unknown():
    asked = Runtime(fit=failed("the environment could not be read"))
    runtime = settled_subject(asked, Subject(runtime=Runtime(version=reported("b9000-a", "props"))), Subject()).runtime
    assert runtime.fit.absence is Absence.FAILED


@pytest.mark.parametrize(
    ("slots", "unified"), [(not_found("-np was not given"), True), (reported(2, "argv"), False), (failed("?"), None)]
)
def test_slots_that_nobody_counted_share_a_cache(slots, unified):
    asked = Runtime(kv_unified=not_found("-kvu was not given"), slots=slots)
    http = Subject(runtime=Runtime(version=reported("b9000-a", "props")))
    assert settled_subject(asked, http, Subject()).runtime.kv_unified.value_or(None) is unified
    old = Subject(runtime=Runtime(version=reported("b5000-a", "props")))
    assert settled_subject(asked, old, Subject()).runtime.kv_unified.value_or(None) is None


def test_a_build_without_a_number_is_as_old_as_its_answers_allow():
    asked = Runtime(fit=not_found("-fit was not given"), cache_ram_bytes=not_found("-cram was not given"))
    http = Subject(runtime=Runtime(version=reported("b0-unknown", "props")))
    assert settled_subject(asked, http, Subject()).runtime.fit.value_or(None) is None
    at_least = oldest_possible({"is_sleeping": False})
    assert settled_subject(asked, http, Subject(), at_least).runtime.fit.need() is True
    assert oldest_possible({}).value_or(None) is oldest_possible(None).value_or(None) is None


def loaded_log(**facts) -> Subject:
    return Subject(runtime=Runtime(name=reported("llama.cpp", "log"), state=reported("loaded", "log:9"), **facts))


@pytest.mark.parametrize(
    ("asked", "log", "on"),
    [
        (not_found("-fa was not given"), loaded_log(), True),
        (not_found("-fa was not given"), loaded_log(flash_attention=reported(False, "log:3")), False),
        (not_found("-fa was not given"), Subject(), None),
        (failed("the environment could not be read"), loaded_log(), None),
        (reported(False, "argv"), loaded_log(), False),
    ],
)
def test_flash_attention_that_is_left_to_itself_is_on_unless_the_log_warns(asked, log, on):
    http = Subject(runtime=Runtime(version=reported("b9999-a", "props")))
    assert settled_subject(Runtime(flash_attention=asked), http, log).runtime.flash_attention.value_or(None) is on


def test_no_batch_is_longer_than_the_context():
    asked = Runtime(batch=estimated(2048, "default"), ubatch=estimated(512, "default"))
    short = Subject(runtime=Runtime(context_length=reported(256, "log")))
    runtime = settled_subject(asked, Subject(), short).runtime
    assert (runtime.batch.need(), runtime.ubatch.need()) == (256, 256)


def test_threads_for_prompts_are_as_many_as_for_tokens():
    asked = Runtime(threads=reported(6, "argv"), threads_batch=not_found("-tb was not given"))
    assert settled_subject(asked, Subject(), Subject()).runtime.threads_batch.need() == 6


def test_sources_that_contradict_each_other_are_kept_with_the_subject():
    log = Subject(runtime=Runtime(kv_type_k=reported("f16", "log:7")))
    [contradiction] = settled_subject(Runtime(kv_type_k=reported("q8_0", "argv")), Subject(), log).contradictions
    assert [statement.source for statement in contradiction.statements] == ["argv", "log:7"]


@pytest.mark.parametrize(("unified", "total"), [(True, 4096), (False, 16384)])
def test_the_whole_context_follows_from_that_of_a_slot(unified, total):
    runtime = Runtime(context_per_slot=reported(4096, "x"), slots=reported(4, "x"), kv_unified=reported(unified, "x"))
    context = settled_subject(Runtime(), Subject(runtime=runtime), Subject()).runtime.context_length
    assert (context.need(), context.origin) == (total, Origin.ESTIMATED)


@pytest.mark.parametrize(
    ("version", "number"), [("b9999-0c1e570", 9999), ("b1-0c1e570", None), ("b50-0c1e570", None), ("b0-unknown", None)]
)
def test_a_build_of_an_archive_or_a_shallow_clone_has_no_number(version, number):
    assert build_number(reported(version, "x")) == number
