"""The quant that a model's name carries, as publishers and tools write it: `…-GGUF:Q5_K_M`, `8b-instruct-fp16`."""

import re

_LLAMA_CPP = r"(?:ud[-_])?(?:i?q|tq)\d\w*|bf16|f16|fp16|f32|fp32|mxfp4(?:_moe)?"
_OTHERS = (
    r"(?:unsloth-)?bnb|bitsandbytes|nf4|awq|gptq|hqq|exl[23]|mlx|nvfp4|w\d{1,2}a\d{1,2}|int-?[48]"
    r"|fp8(?:[-_](?:dynamic|static|block|tensor|channel))?|\d-?bit|\d(?:\.\d{1,3})?-?bpw|\d{2,4}g|g\d{2,4}"
)
_PUNCTUATION = r"[-_.:@\s]"
_QUANT = re.compile(rf"{_PUNCTUATION}({_LLAMA_CPP}|{_OTHERS})(?=$|{_PUNCTUATION})", re.IGNORECASE)
_OF_LLAMA_CPP = re.compile(_LLAMA_CPP, re.IGNORECASE)
_BITS = re.compile(r"\d-?bit", re.IGNORECASE)
_TRAINED_FOR_Q4_0 = re.compile(r"gemma.{0,200}[-_]qat\b", re.IGNORECASE)  # Google's models for quants are all for Q4_0


def split_quant(name: str) -> tuple[str, str]:
    """A name without its quant, and the quant, which is empty where the name carries none."""
    found = _QUANT.findall(name)
    return _QUANT.sub("", name), _quant(found) or ("Q4_0" if _TRAINED_FOR_Q4_0.search(name) else "")


def _quant(words: list[str]) -> str:
    """One word for llama.cpp; for others all words, such as GPTQ and Int4. With nothing but its bits, it is MLX's."""
    for_llama_cpp = [word for word in words if _OF_LLAMA_CPP.fullmatch(word)]
    if for_llama_cpp:
        return for_llama_cpp[-1]
    if len(words) == 1 and _BITS.fullmatch(words[0]):
        return f"MLX {words[0]}"
    return " ".join(words)
