"""Which draft models llama.cpp accepts beside a model."""

import msgspec
from tests.think.plan.llama_cpp import planning

from unslow.facts.model import Blueprint, MetadataValue
from unslow.think.plan.llama_cpp.plan import why_no_draft

MODEL = planning.blueprint("llama-3.1-8b")


def with_keys(plan: Blueprint, **keys: MetadataValue) -> Blueprint:
    named = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    return msgspec.structs.replace(plan, metadata={**plan.metadata, **named})


def test_draft_needs_the_same_vocabulary(wording) -> None:
    assert why_no_draft(MODEL, planning.blueprint("llama-3.2-1b")) == ""
    told = why_no_draft(MODEL, planning.blueprint("qwen3-0.6b"))
    wording(told, tells=("151,936", "128,256"))


def test_vocabulary_may_differ_by_128_tokens() -> None:
    for tokens, fits in ((MODEL.vocabulary + 128, True), (MODEL.vocabulary + 129, False)):
        other = msgspec.structs.replace(MODEL, vocabulary=tokens)
        assert (why_no_draft(MODEL, other) == "") is fits
        assert (why_no_draft(other, MODEL) == "") is fits


def test_missing_vocabulary_size_comes_from_the_token_table() -> None:
    unsaid = msgspec.structs.replace(planning.blueprint("qwen3-0.6b"), vocabulary=0)
    assert "151,936" in why_no_draft(MODEL, unsaid)
    assert why_no_draft(MODEL, msgspec.structs.replace(unsaid, tensors=[])) == ""


def test_other_tokenizer_is_refused_at_equal_vocabulary(wording) -> None:
    own = with_keys(MODEL, model="gpt2", add_bos_token=True)
    assert why_no_draft(own, with_keys(MODEL, model="gpt2")) == ""
    wording(why_no_draft(own, with_keys(MODEL, model="llama")), tells="gpt2")
    wording(why_no_draft(own, with_keys(MODEL, add_bos_token=False)), tells="False")
