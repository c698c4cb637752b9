import pytest

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Origin, estimated_fact, failed_fact, not_found, reported_fact
from unslow.look.runtimes._gguf_server import SLEEPS, build_number, exact_model, settled_subject


def test_log_wins_over_command_line_and_http_over_log_for_state():
    asked = Runtime().with_facts(
        context_set=reported_fact(8192, "argv"), batch=estimated_fact(2048, "default"), slots=reported_fact(2, "argv")
    )
    http = Subject(runtime=Runtime().with_facts(state=reported_fact("loaded", "http"), slots=reported_fact(4, "http")))
    log = Subject(
        runtime=Runtime().with_facts(
            state=reported_fact("failed", "log"),
            slots=reported_fact(3, "log"),
            batch=reported_fact(512, "log"),
            context_set=reported_fact(1, "log"),
        )
    )
    runtime = settled_subject(asked, http, log).runtime
    assert (runtime.state.need(), runtime.scheduling.slots.need()) == ("loaded", 4)
    assert (runtime.compute.batch.need(), runtime.context.requested.need()) == (512, 8192)


def test_an_exact_size_is_not_replaced_by_a_rounded_one():
    told = Model(weights_bytes=reported_fact(100, "http"), name=reported_fact("a.gguf", "http"))
    rounded = Model(
        weights_bytes=estimated_fact(99, "log"), name=reported_fact("a", "log"), parameters=estimated_fact(7, "log")
    )
    model = exact_model(told, rounded)
    assert (model.weights_bytes.need(), model.name.need(), model.parameters.need()) == (100, "a", 7)


@pytest.mark.parametrize(
    ("version", "fit"), [("b7407-abc", True), ("b7406-abc", None), ("b0-unknown", None), ("x", None)]
)
def test_fit_is_on_by_default_since_b7407(version, fit):
    asked = Runtime().with_facts(fit=not_found("-fit was not given"))
    runtime = settled_subject(
        asked, Subject(runtime=Runtime(version=reported_fact(version, "props"))), Subject()
    ).runtime
    assert runtime.placement.fit.value_or(None) is fit


def test_an_unreadable_environment_leaves_fit_unknown():
    asked = Runtime().with_facts(fit=failed_fact("the environment could not be read"))
    runtime = settled_subject(
        asked, Subject(runtime=Runtime(version=reported_fact("b9000-a", "props"))), Subject()
    ).runtime
    assert runtime.placement.fit.absence is Absence.FAILED


@pytest.mark.parametrize(
    ("slots", "unified"),
    [(not_found("-np was not given"), True), (reported_fact(2, "argv"), False), (failed_fact("?"), None)],
)
def test_automatic_slots_share_a_unified_kv_cache(slots, unified):
    asked = Runtime().with_facts(kv_unified=not_found("-kvu was not given"), slots=slots)
    http = Subject(runtime=Runtime(version=reported_fact("b9000-a", "props")))
    assert settled_subject(asked, http, Subject()).runtime.cache.unified.value_or(None) is unified
    old = Subject(runtime=Runtime(version=reported_fact("b5000-a", "props")))
    assert settled_subject(asked, old, Subject()).runtime.cache.unified.value_or(None) is None


def test_a_build_without_a_number_is_dated_by_its_answers():
    asked = Runtime().with_facts(fit=not_found("-fit was not given"), cache_ram_bytes=not_found("-cram was not given"))
    http = Subject(runtime=Runtime(version=reported_fact("b0-unknown", "props")))
    assert settled_subject(asked, http, Subject()).runtime.placement.fit.value_or(None) is None
    assert settled_subject(asked, http, Subject(), SLEEPS).runtime.placement.fit.need() is True


def loaded_log(**facts) -> Subject:
    return Subject(
        runtime=Runtime().with_facts(
            name=reported_fact("llama.cpp", "log"), state=reported_fact("loaded", "log:9"), **facts
        )
    )


@pytest.mark.parametrize(
    ("asked", "log", "on"),
    [
        (not_found("-fa was not given"), loaded_log(), True),
        (not_found("-fa was not given"), loaded_log(flash_attention=reported_fact(False, "log:3")), False),
        (not_found("-fa was not given"), Subject(), None),
        (failed_fact("the environment could not be read"), loaded_log(), None),
        (reported_fact(False, "argv"), loaded_log(), False),
    ],
)
def test_automatic_flash_attention_is_on_unless_the_log_warns(asked, log, on):
    http = Subject(runtime=Runtime(version=reported_fact("b9999-a", "props")))
    assert (
        settled_subject(
            Runtime().with_facts(flash_attention=asked), http, log
        ).runtime.compute.flash_attention.value_or(None)
        is on
    )


def test_batch_sizes_are_limited_to_the_context():
    asked = Runtime().with_facts(batch=estimated_fact(2048, "default"), ubatch=estimated_fact(512, "default"))
    short = Subject(runtime=Runtime().with_facts(context_length=reported_fact(256, "log")))
    runtime = settled_subject(asked, Subject(), short).runtime
    assert (runtime.compute.batch.need(), runtime.compute.ubatch.need()) == (256, 256)


def test_threads_batch_defaults_to_threads():
    asked = Runtime().with_facts(threads=reported_fact(6, "argv"), threads_batch=not_found("-tb was not given"))
    assert settled_subject(asked, Subject(), Subject()).runtime.compute.threads_batch.need() == 6


def test_contradicting_sources_are_kept_with_the_subject():
    log = Subject(runtime=Runtime().with_facts(kv_type_k=reported_fact("f16", "log:7")))
    [contradiction] = settled_subject(
        Runtime().with_facts(kv_type_k=reported_fact("q8_0", "argv")), Subject(), log
    ).contradictions
    assert [statement.source for statement in contradiction.statements] == ["argv", "log:7"]


@pytest.mark.parametrize(("unified", "total"), [(True, 4096), (False, 16384)])
def test_total_context_follows_from_the_context_per_slot(unified, total):
    runtime = Runtime().with_facts(
        context_per_slot=reported_fact(4096, "x"), slots=reported_fact(4, "x"), kv_unified=reported_fact(unified, "x")
    )
    context = settled_subject(Runtime(), Subject(runtime=runtime), Subject()).runtime.context.length
    assert (context.need(), context.origin) == (total, Origin.ESTIMATED)


@pytest.mark.parametrize(
    ("version", "number"), [("b9999-0c1e570", 9999), ("b1-0c1e570", None), ("b50-0c1e570", None), ("b0-unknown", None)]
)
def test_a_build_from_an_archive_or_shallow_clone_has_no_number(version, number):
    assert build_number(reported_fact(version, "x")) == number
