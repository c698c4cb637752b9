"""What users see is what is stored; `python -m tests.golden update` stores what is meant to be seen from now on."""

import pytest
from tests.golden.cases import SHARED, VERBS
from tests.golden.comparing import difference
from tests.golden.files import stored

SAMPLED = {"triage": 3}
"""Of verbs with hundreds of like cases, each so-manieth in the default suite; the others with `make test-real`."""
CASES = [
    pytest.param(
        verb, name, case, id=f"{verb}-{name}", marks=[pytest.mark.real] if place % SAMPLED.get(verb, 1) else []
    )
    for verb, cases in VERBS.items()
    if verb not in SHARED
    for place, (name, case) in enumerate(cases().items())
]


@pytest.mark.parametrize(("verb", "name", "case"), CASES)
def test_output_is_as_stored(verb, name, case):
    found = difference(verb, name, case, most=40)
    assert not found, f"\n{found}"


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_stored_that_is_no_longer_a_case(verb):
    assert set(stored(verb)) == set(VERBS[verb]())
