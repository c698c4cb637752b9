"""Functions accept numbers and arrays, and a number needs no NumPy."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.terms import Factor, Term, at_most, larger, logarithm, smaller, total_of_terms

numbers = st.floats(-100, 100)


@given(numbers, numbers)
def test_binary_functions_agree_on_numbers_and_arrays(a, b):
    pair = np.array([a, b])
    assert (smaller(a, b), larger(a, b)) == (min(a, b), max(a, b))
    assert smaller(pair, b).tolist() == [min(a, b), b]
    assert larger(a, pair).tolist() == [a, max(a, b)]
    assert at_most(a, b) == float(a <= b)
    assert at_most(pair, b).tolist() == [float(a <= b), 1.0]


@given(numbers)
def test_unary_functions_agree_on_numbers_and_arrays(x):
    one, two = (total_of_terms([Term("", 1.0, (Factor("f", power),))], {"f": 1.0}) for power in (x, np.array([x, 0.0])))
    assert one == math.exp(x)
    assert two == pytest.approx([math.exp(x), 1.0])
    assert logarithm(math.exp(x)) == pytest.approx(x, abs=1e-9)
    assert logarithm(np.array([1.0, math.e])) == pytest.approx([0.0, 1.0])


def test_single_prediction_does_not_import_numpy():
    code = "import sys, unslow.think.speed.question, unslow.think.case.speed; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
