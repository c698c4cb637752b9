import ast
import importlib.util

import pytest

from unslow.facts.commands import Place, parse_line
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes.transformers.commands import commands_for

MODEL = AtHand(Model(path=reported_fact('/models/it\'s "here"\n', "x")), listed=frozenset({"org/other"}), anew=True)
LOAD = "AutoModelForCausalLM.from_pretrained"
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def code(*changes, at_hand=MODEL, runtime=None) -> str:
    lines = map(parse_line, commands_for(changes, runtime or Runtime(), at_hand).lines)
    return next(line.text for line in lines if line.place is Place.PYTHON)


def arguments(text: str, function: str) -> dict[str, str]:
    """What a call of the program is given by name."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (call,) = [call for call in calls if ast.unparse(call.func) == function]
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}


def test_all_changes_are_in_one_transformers_program():
    text = code(
        Knob.WEIGHTS_TYPE.to("bfloat16"), Knob.ATTENTION.to("sdpa"), Knob.CACHE.to("static"), Knob.GPU_LAYERS.to(-1),
        Knob.THREADS.to(8), Knob.QUANT.to("nf4"),
    )  # fmt: skip
    assert arguments(text, LOAD) == {
        "dtype": "torch.bfloat16", "attn_implementation": "'sdpa'", "device_map": "'cuda'",
        "quantization_config": "BitsAndBytesConfig(load_in_4bit=True)",
    }  # fmt: skip
    assert arguments(text, "model.generate") == {"max_new_tokens": "64", "cache_implementation": "'static'"}
    assert "torch.set_num_threads(8)" in text
    assert "from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig" in text
    assert ast.literal_eval(ast.parse(text).body[3].value.args[0]) == MODEL.model.path.value


def test_compiled_code_uses_a_static_cache():
    text = code(Knob.COMPILE.to(True))
    assert arguments(text, "torch.compile") == {"mode": "'reduce-overhead'", "fullgraph": "True"}
    assert arguments(text, "model.generate")["cache_implementation"] == "'static'"
    assert arguments(code(Knob.COMPILE.to(False)), "model.generate")["disable_compile"] == "True"


@pytest.mark.parametrize(
    ("change", "function", "name", "value"),
    [
        (Knob.FLASH_ATTENTION.to(True), LOAD, "attn_implementation", "'flash_attention_2'"),
        (Knob.DEVICE.to("CUDA1"), LOAD, "device_map", "'cuda:1'"),
        (Knob.GPU_LAYERS.to(0), LOAD, "device_map", "'cpu'"),
        (Knob.KV_CACHE_TYPE.to("q4_0"), "model.generate", "cache_config", "{'backend': 'quanto', 'nbits': 4}"),
        (Knob.PROMPT_CACHE.to(False), "model.generate", "use_cache", "False"),
    ],
)  # fmt: skip
def test_each_knob_becomes_a_transformers_argument(change, function, name, value):
    assert arguments(code(change), function)[name] == value


def test_packages_old_versions_drafts_and_names_are_spelled(wording):
    assert commands_for([Knob.KV_CACHE_TYPE.to("q8_0")], Runtime(), MODEL).lines[0] == "pip install hqq"
    old = Runtime(version=reported_fact("4.40.2", "x"))
    assert "torch_dtype=torch.float16" in code(Knob.WEIGHTS_TYPE.to("float16"), runtime=old)
    assert "dtype='auto'" in ast.unparse(ast.parse(code(Knob.WEIGHTS_TYPE.to("auto"))))
    drafted = code(Knob.SPECULATIVE.to("org/other"))
    assert "draft = AutoModelForCausalLM.from_pretrained('org/other'" in drafted
    assert arguments(drafted, "model.generate")["assistant_model"] == "draft"
    assert "from_pretrained('org/other')" in code(Knob.MODEL_FILE.to("org/other"), Knob.QUANT.to("awq"))
    wording(commands_for([Knob.THREADS.to(2)], Runtime(), AtHand(anew=True)).lines[-1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Knob.WEIGHTS_TYPE.to("q4_0"), "weights can't be loaded as q4_0"),
        (Knob.ATTENTION.to('x", evil="'), "is not the name of a kernel"),
        (Knob.CACHE.to("paged"), "no paged cache"),
        (Knob.KV_CACHE_TYPE.to("fp8"), "no fp8 KV cache"),
        (Knob.GPU_LAYERS.to(20), "counts bytes, not layers"),
        (Knob.DEVICE.to("best"), "is not a device"),
        (Knob.MODEL_FILE.to("org/never"), "neither a folder on this machine"),
        (Knob.SPECULATIVE.to("org/never"), "neither a folder on this machine"),
        (Knob.THREADS.to(0), "is not a number of threads"),
        (Knob.CONTEXT_LENGTH.to(4096), "as long as each conversation"),
        (Knob.PARALLEL.to(4), "Transformers has no setting for it"),
    ],
)
def test_changes_that_transformers_does_not_support_are_left_out(change, why):
    spelled = commands_for([change], Runtime(), MODEL)
    ((left, said),) = spelled.left_out
    assert left == change
    assert why in said
    assert spelled.lines == ()


def test_a_quantized_cache_with_compiled_code_is_left_out():
    spelled = commands_for([Knob.COMPILE.to(True), Knob.KV_CACHE_TYPE.to("q8_0")], Runtime(), MODEL)
    assert [change.knob for change, _ in spelled.left_out] == [Knob.KV_CACHE_TYPE]
    offloaded = commands_for([Knob.COMPILE.to(True), Knob.CACHE.to("offloaded")], Runtime(), MODEL)
    assert [change.knob for change, _ in offloaded.left_out] == [Knob.COMPILE]


@pytest.mark.real
@pytest.mark.filterwarnings("ignore")  # of PyTorch's own
@pytest.mark.skipif(not HAS_TORCH, reason="torch and transformers can't be imported")
def test_the_spelled_transformers_program_runs(tmp_path, capsys):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<s>", "</s>", "<unk>", "Once", "upon", "a", "time", *(f"w{number}" for number in range(57))]
    tokens = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    own = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokens, **own).save_pretrained(tmp_path)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=64, **shape)).save_pretrained(tmp_path)
    here = AtHand(Model(path=reported_fact(str(tmp_path), "x")))
    changes = (Knob.WEIGHTS_TYPE.to("bfloat16"), Knob.ATTENTION.to("sdpa"), Knob.CACHE.to("static"), Knob.THREADS.to(1))
    exec(compile(code(*changes, at_hand=here), "spelled", "exec"), {})
    assert capsys.readouterr().out.startswith("Once upon a time")
