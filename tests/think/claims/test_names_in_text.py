import pytest

from unslow.think.claims.sentence import SentenceReading, parse_sentence


def parsed(text: str) -> SentenceReading:
    return parse_sentence(text)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Llama 3.3 70B Q4_K_M", "Llama-3.3-70B"),
        ("llama3.3:70b-q4_K_M", "Llama-3.3-70B"),
        ("Llama-3.1-8B-Instruct-AWQ", "Llama-3.1-8B"),
        ("Qwen 2.5 32B", "Qwen2.5-32B"),
        ("Qwen3 30B MoE (3B active)", "Qwen3-30B-A3B"),
        ("Mixtral 8×22B", "Mixtral-8x22B"),
        ("gpt-oss 120b", "gpt-oss-120b"),
        ("DeepSeek R1", "DeepSeek-R1"),
        ("SmolLM2-135M (IQ4_XS)", "SmolLM2-135M"),
    ],
)
def test_model_spellings_are_recognized(text: str, model: str) -> None:
    assert parsed(f"{text} at 5 tok/s").models[0].models[0].name == model


def test_size_alone_matches_every_model_of_that_size() -> None:
    (said,) = parsed("a 70B on my card").models
    assert {m.name for m in said.models} >= {"Llama-3.3-70B", "Llama-2-70B"}
    assert not said.named


def test_unknown_model_name_keeps_its_size() -> None:
    (said,) = parsed("Foobar-2-45B at 10 tok/s").models
    assert (said.label, said.models, said.parameters, said.stranger) == ("foobar-2-45b", (), 45e9, True)


def test_active_parameters_of_an_unknown_model_are_read() -> None:
    (said,) = parsed("Foobar-90B-A6B at 10 tok/s").models
    assert (said.parameters, said.active, said.stranger) == (90e9, 6e9, False)


@pytest.mark.parametrize(
    ("text", "device", "number"),
    [
        ("RTX 4090", "RTX 4090", 1),
        ("my 4090", "RTX 4090", 1),
        ("two 3090s", "RTX 3090", 2),
        ("2x RTX 3090", "RTX 3090", 2),
        ("8xH100", "H100 SXM", 8),
        ("4 H100", "H100 SXM", 4),
        ("7900XTX", "RX 7900 XTX", 1),
        ("an M2 Ultra", "Apple M2 Ultra", 1),
        ("an RTX 4060 Ti 16GB", "RTX 4060 Ti", 1),
        ("Ryzen AI Max+ 395", "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)", 1),
        ("Groq LPU", "Groq LPU v1", 1),
        ("64 Groq chips", "Groq LPU v1", 64),
        ("Cerebras", "Cerebras WSE-3", 1),
    ],
)
def test_device_spellings_are_recognized(text: str, device: str, number: int) -> None:
    (said,) = parsed(f"it runs on {text} at last").devices
    assert (said.label, said.number) == (device, number)


@pytest.mark.parametrize(
    "text", ["4090 tok/s", "DDR5-6000", "3,090 tokens", "context 4096", "a 10 tok/s claim", "i9-9900T", "Q4_K_M 4"]
)
def test_other_numbers_are_not_devices(text: str) -> None:
    assert parsed(text).devices == ()


def test_slash_means_either_device() -> None:
    (said,) = parsed("RTX 3090/4090 on 70B").devices
    assert {d.name for d in said.devices} == {"RTX 3090", "RTX 4090"}


def test_host_memory_is_not_vram() -> None:
    (said,) = parsed("RTX 4090 + 128 GB RAM").devices
    assert said.memory_bytes == 0


def test_each_number_takes_its_nearest_names() -> None:
    said = parsed("8B Q4 at 100 tok/s on an RTX 4090, 40 tok/s on an RTX 3060")
    assert [getattr(said.device_at(a.start), "label", "") for a in said.amounts] == ["RTX 4090", "RTX 3060"]
    said = parsed("RTX 3060 on 7B = 40-60 tok/s, 13B = 25-35 tok/s")
    assert [getattr(said.model_at(a.start), "label", "") for a in said.amounts] == ["7B", "13B"]


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("at 32K context", 32768),
        ("-c 8192", 8192),
        ("num_ctx 4096", 4096),
        ("a context of 131,072 tokens", 131072),
        ("128k-token context", 131072),
        ("100K tokens in context", 102400),
        ("128K vocabulary", 0),
        ("57k tok/s", 0),
    ],
)
def test_context_lengths_are_parsed(text: str, context: int) -> None:
    assert parsed(f"Llama 3 8B {text}").settings.context == context


def test_kv_cache_type_is_not_the_quant() -> None:
    said = parsed("Llama 3 8B Q4_K_M with a q8_0 KV cache")
    assert ([q.label for q in said.quants], said.cache_type) == (["Q4_K_M"], "Q8_0")
