"""Prefill progress as a server's slots show it."""

import pytest

from unslow.look.bench.trials.server_work import parse_prompts

SLOT = {"id": 0, "id_task": 3, "n_prompt_tokens": 1000, "n_prompt_tokens_cache": 100}


@pytest.mark.parametrize(("told", "computed"), [(400, 400), (None, None), ("many", None), (-1, None), (2**40, None)])
def test_computed_prompt_tokens_are_parsed_from_slots(told, computed):
    (prompt,) = parse_prompts([{**SLOT, "n_prompt_tokens_processed": told}])
    assert (prompt.tokens, prompt.cached_tokens, prompt.computed_tokens) == (1000, 100, computed)
