import pytest

from unslow.facts.masking import data_without_keys, is_secret, key_headers, without_keys

KEY = "sk-canary-0123456789"


def test_a_key_becomes_one_header_and_is_removed_from_texts():
    assert key_headers(KEY) == {"Authorization": f"Bearer {KEY}"}
    assert key_headers("") == key_headers(None) == {}
    assert without_keys(f"no {KEY} here, nor {KEY}", KEY) == "no KEY here, nor KEY"


def test_keys_are_removed_from_nested_data():
    data = {"a": [KEY, {KEY: f"x{KEY}"}], "n": 3, "none": None}
    assert data_without_keys(data, KEY) == {"a": ["KEY", {"KEY": "xKEY"}], "n": 3, "none": None}


@pytest.mark.parametrize("word", ["", None, "ollama", "none", "EMPTY", "lm-studio", "sk-no-key-required"])
def test_a_placeholder_key_is_not_a_secret(word):
    assert not is_secret(word)
    assert without_keys("ollama none EMPTY lm-studio", word) == "ollama none EMPTY lm-studio"
