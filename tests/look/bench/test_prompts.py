"""Prompts of the requested length, all different, with few tokenizer calls."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from zlib import crc32

import pytest
from doubles import FakeSystem

from unslow.look.bench.prompts import PROMPTS, WORDS, Prompts, learned_ruler, parse_row, row_of
from unslow.look.requests import Target, parse_tokens, read_tokens
from unslow.look.system import Answer, LookError

URL = "http://127.0.0.1:9"
BOS = 1


def tokens_of(text: str) -> list[int]:
    """A tokenizer of its own kind: pieces of up to four letters, full stops apart, and one token before all."""
    return [BOS, *(100 + crc32(piece.encode()) for piece in re.findall(r" ?\w{1,4}|\.|,", text))]


class Tokenizing(FakeSystem):
    """A llama-server of which only the tokenizer answers."""

    def request(self, method, url, body=None, headers=None, timeout_s=0):
        self.sent.append((f"{method} {url}", body))
        return Answer(200, json.dumps({"tokens": tokens_of(body["content"])}).encode())


@pytest.mark.parametrize("tokens", [4, 16, 63, 64, 100, 1000, 20_000])
def test_a_prompt_is_within_two_tokens_of_the_requested_length(tokens):
    assert len(tokens_of(Prompts(Tokenizing(), Target(URL)).prompt(tokens))) == pytest.approx(tokens, abs=2)


def test_the_tokenizer_is_called_three_times_however_many_prompts():
    system = Tokenizing()
    prompts = Prompts(system, Target(URL))
    for tokens in (10, 20, 100, 200, 300, 10_000):
        prompts.prompt(tokens)
    assert len(system.sent) == 3


def test_every_prompt_starts_with_a_different_word_across_threads():
    prompts = Prompts(Tokenizing(), Target(URL))
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(prompts.prompt, [0, 50, 500] * 20))
    assert len({text.split()[0] for text in many}) == len(many)


def test_two_benchmarks_send_different_prompts():
    first, second = FakeSystem(), FakeSystem()
    second.clock()
    assert Prompts(first, Target(URL)).prompt(0) != Prompts(second, Target(URL)).prompt(0)


def test_a_long_prompt_has_no_repeats_that_a_draft_model_could_copy():
    words = Prompts(Tokenizing(), Target(URL)).prompt(20_000).split()[:-20]
    triples = list(zip(words, words[1:], words[2:], strict=False))
    assert len(set(triples)) > 0.999 * len(triples)
    assert sum(a == b for a, b in pairwise(words)) < 0.01 * len(words)


def test_the_standard_prompts_alternate():
    prompts = Prompts(FakeSystem(), Target(URL))
    texts = [prompts.prompt(0) for _ in range(4)]
    assert [text.endswith(PROMPTS[i % 2]) for i, text in enumerate(texts)] == [True] * 4


def test_without_a_tokenizer_prompt_length_is_learned_from_earlier_prompts():
    prompts = Prompts(FakeSystem(), Target(URL, runtime="Ollama"))
    for words in (20, 500):
        prompts.learn(words, 2 * words + 30)
    assert len(prompts.prompt(1030).split()) == pytest.approx(500, abs=1)


def test_prompt_length_holds_with_a_letter_tokenizer_and_tiny_targets():
    class Spelling(Tokenizing):
        """One token for each letter, and one for the word between."""

        def request(self, method, url, body=None, headers=None, timeout_s=0):
            words = body["content"].split()
            letters = [
                crc32(f"{word} {i}".encode()) for word in words for i in range(1 if word == "the" else len(word))
            ]
            return Answer(200, json.dumps({"tokens": letters}).encode())

    for tokens in (1, 2, 5, 80):
        assert len(Prompts(Spelling(), Target(URL)).prompt(tokens).replace(" ", "")) <= max(tokens + 4, 12)
        assert Prompts(Tokenizing(), Target(URL)).prompt(tokens)


def test_an_impossible_learned_ratio_does_not_make_a_huge_prompt():
    prompts = Prompts(FakeSystem(), Target(URL, runtime="Ollama"))
    prompts.learn(1_000_000, 1)
    assert len(prompts.prompt(1000).split()) <= 4000


def test_without_tokenizer_or_history_a_default_ratio_is_used():
    assert 600 < len(Prompts(FakeSystem(), Target(URL, runtime="Ollama")).prompt(1000).split()) < 900


@pytest.mark.parametrize(
    ("seen", "other", "around"),
    [
        ([], 1.3, 0.0),
        ([(100, 150)], 1.5, 0.0),
        ([(100, 150), (110, 155)], pytest.approx(305 / 210), 0.0),
        ([(100, 150), (200, 250)], 1.0, 50.0),
        ([(100, 150), (200, 300)], 1.5, 0.0),
    ],
)
def test_tokens_per_word_are_fitted_from_word_and_token_pairs(seen, other, around):
    ruler = learned_ruler(seen)
    assert (ruler.other, ruler.around) == (other, around)


def test_tokens_per_word_are_parsed_from_a_separator_row():
    words = ["ox", "elephant", "a."]
    assert parse_row(tokens_of(row_of(words)), words).sizes == {"ox": 1, "elephant": 2, "a.": 2}


@pytest.mark.parametrize("tokens", [[], [5], [5, 5, 5, 5], list(range(40)), [7, 5, 7, 5, 7]])
def test_an_inconsistent_tokenizer_row_is_rejected(tokens):
    assert parse_row(tokens, ["ox", "elephant", "a."]) is None


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ({"tokens": [1, 2]}, [1, 2]),
        ({"value": 2, "ids": [1, 2]}, [1, 2]),
        ([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}], [1, 2]),
        ({"tokenize_response": [{"id": 1}], "templated_text": "x"}, [1]),
        ({"tokens": ["a"]}, None),
        ({"tokens": [True]}, None),
        ({"tokens": []}, None),
        ({}, None),
        (None, None),
        ("x", None),
    ],
)
def test_tokenizer_answers_of_each_runtime_are_parsed(answer, tokens):
    assert parse_tokens(answer) == tokens


@pytest.mark.parametrize(
    ("runtime", "path"),
    [("vLLM", "/tokenize"), ("SGLang", "/tokenize"), ("TGI", "/chat_tokenize"), ("KoboldCpp", "/api/extra/tokencount")],
)
def test_each_runtime_has_its_tokenize_endpoint(runtime, path):
    system = FakeSystem(http={f"POST {URL}{path}": Answer(200, b'{"tokens": [1, 2, 3]}')})
    assert read_tokens(system, Target(URL, runtime=runtime, model="m"), "hello") == [1, 2, 3]


def test_a_failing_or_missing_tokenizer_gives_none():
    system = FakeSystem(http={f"POST {URL}/tokenize": LookError("down")})
    assert read_tokens(system, Target(URL), "hello") is None
    assert read_tokens(FakeSystem(), Target(URL, runtime="LM Studio"), "hello") is None


def test_the_prompt_words_are_unique_lowercase_ascii():
    assert len(set(WORDS)) == len(WORDS) > 900
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)
    assert "the" not in WORDS


def test_a_letter_tokenizer_gives_the_average_tokens_per_word():
    """The tokenizer of generated models: it keeps no words apart, so only the average is known."""

    class Letters(FakeSystem):
        def request(self, method, url, body=None, headers=None, timeout_s=0):
            return Answer(200, json.dumps({"tokens": [ord(letter) for letter in body["content"]]}).encode())

    for tokens in (600, 3580):
        text = Prompts(Letters(), Target("http://127.0.0.1:1")).prompt(tokens)
        assert abs(len(text) - tokens) < 150 + 0.02 * tokens  # the question has longer words than most
