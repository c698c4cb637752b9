"""Log probabilities of a given text from llama-server and vLLM."""

import json

import pytest
from doubles import FakeSystem

from unslow.look.bench.timing import score
from unslow.look.requests import FIRST_PLACE, ScoredText, Target, scored_places
from unslow.look.runtimes.llama_cpp.bench import parse_token
from unslow.look.runtimes.vllm.bench import parse_scored
from unslow.look.system import Answer, LookError

URL = "http://127.0.0.1:8080"
TOKENS = list(range(100, 150))
# as llama-server b9049 answered for " river" after "The"
REAL = {
    "completion_probabilities": [
        {
            "id": 4626, "token": " river", "bytes": [32, 114, 105, 118, 101, 114], "logprob": -13.550475120544434,
            "top_logprobs": [{"id": 29, "token": "-", "bytes": [45], "logprob": -0.9019963145256042}],
        }
    ]
}  # fmt: skip


class Server(FakeSystem):
    """A llama-server that expects every token alike; it gives no number from place `breaks_at` on."""

    breaks_at = 10**9

    def request(self, method, url, body=None, headers=None, timeout_s=0):
        self.sent.append((f"{method} {url}", body))
        if url.endswith("/tokenize"):
            return Answer(200, json.dumps({"tokens": TOKENS}).encode())
        wanted, place = body["logit_bias"][0][0], len(body["prompt"])
        value = None if place >= self.breaks_at else -place / 10
        token = {"id": wanted, "logprob": value, "top_logprobs": [{"id": 7, "logprob": -0.1}]}
        return Answer(200, json.dumps({"completion_probabilities": [token]}).encode())


def test_a_recorded_llama_server_logprob_is_parsed():
    token = parse_token(REAL, 4626)
    assert (token.logprob, token.top_logprobs[0].id) == (-13.550475120544434, 29)


@pytest.mark.parametrize("answer", [None, {}, {"completion_probabilities": []}, {"completion_probabilities": [{}]}])
def test_an_answer_without_probabilities_is_a_look_error(answer):
    with pytest.raises(LookError, match="no probability"):
        parse_token(answer, 4626)


def test_a_logprob_of_another_token_is_a_look_error():
    with pytest.raises(LookError, match="another token"):
        parse_token(REAL, 1)


def test_each_position_is_scored_with_its_whole_prefix():
    system = Server()
    found = score(system, Target(URL), ScoredText("some text", places=10, slot=3))
    asked = [body for name, body in system.sent if name.endswith("/completion")]
    assert found.at == scored_places(len(TOKENS), 10) == tuple(len(body["prompt"]) for body in asked)
    assert [body["logit_bias"][0][0] for body in asked] == [TOKENS[place] for place in found.at]
    assert all(body["cache_prompt"] and body["id_slot"] == 3 and body["n_predict"] == 1 for body in asked)
    assert found.log_probabilities == tuple(-place / 10 for place in found.at)
    assert set(found.likeliest) == {7}


def test_scored_positions_are_spread_over_the_text_and_bounded():
    assert scored_places(50, 1000) == tuple(range(FIRST_PLACE, 50))
    assert len(scored_places(4096, 200)) <= 200
    assert scored_places(4096, 200)[-1] > 4000


def test_scoring_stops_at_its_time_limit():
    assert (
        len(score(Server(), Target(URL), ScoredText("some text", seconds=0.35)).at) < 10
    )  # the clock there: 0.1 s a look


def test_scoring_stops_at_the_context_length():
    assert max(score(Server(), Target(URL), ScoredText("some text", context=48)).at) < 32
    with pytest.raises(LookError, match="does not fit"):
        score(Server(), Target(URL), ScoredText("some text", context=24))


def test_a_missing_logprob_in_mid_text_is_a_look_error():
    system = Server()
    system.breaks_at = 20
    with pytest.raises(LookError, match="no probability"):
        score(system, Target(URL), ScoredText("some text"))


def test_scoring_refuses_runtimes_without_logprobs(wording):
    with pytest.raises(LookError) as refused:
        score(FakeSystem(), Target(URL, runtime="Ollama"), ScoredText("some text"))
    wording(refused.value.why, tells="Ollama")
    with pytest.raises(LookError, match="did not return the tokens"):
        score(FakeSystem(), Target(URL), ScoredText("some text"))


def vllm_answer(tokens: list[int]) -> dict:
    def entry(token: int) -> dict:
        likeliest = {"logprob": -0.2, "rank": 1, "decoded_token": " a"}
        return {"7": likeliest, str(token): {"logprob": -token / 100, "rank": 9, "decoded_token": " b"}}

    return {"choices": [{"text": "x", "prompt_logprobs": [None, *(entry(token) for token in tokens[1:])]}]}


def test_vllm_scores_all_positions_in_one_request():
    system = FakeSystem(
        http={
            f"POST {URL}/tokenize": Answer(200, json.dumps({"tokens": TOKENS}).encode()),
            f"POST {URL}/v1/completions": Answer(200, json.dumps(vllm_answer(TOKENS)).encode()),
        }
    )
    found = score(system, Target(URL, runtime="vLLM", model="m"), ScoredText("some text"))
    assert found.log_probabilities == tuple(-TOKENS[place] / 100 for place in found.at)
    assert set(found.likeliest) == {7}
    assert system.sent[-1][1]["prompt_logprobs"] == 1


@pytest.mark.parametrize("answer", [{}, {"choices": []}, vllm_answer(TOKENS[:20]), vllm_answer([1] * 50)])
def test_a_vllm_answer_with_missing_positions_is_a_look_error(answer, wording):
    with pytest.raises(LookError) as refused:
        parse_scored(answer, TOKENS, scored_places(len(TOKENS), 200))
    wording(refused.value.why.partition(":")[0])  # what follows are the decoder's words
