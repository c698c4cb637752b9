"""Records a watched Transformers model: a random-weight Llama on whatever this machine has, generated three times.

    python -m lab.record_transformers OUT [--gpu] [--layers 8] [--width 512]

Needs torch and transformers, which the project itself does not. OUT becomes a recording that `unslow diagnose OUT`
replays; the report is shown.
"""

import argparse
from pathlib import Path

from unslow.live.transformers import Watch
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import Recorder

PROMPT_TOKENS, NEW_TOKENS, CALLS = 64, 64, 4


def main() -> None:
    """Make the model, watch it, keep the recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpu", action="store_true", help="put the model on the first GPU, in bfloat16")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--static", action="store_true", help="a static cache, which generate compiles for")
    args = parser.parse_args()
    recorder = Recorder(LiveSystem(), args.out)
    try:
        record(args, recorder)
    finally:
        recorder.close()


def record(args: argparse.Namespace, recorder: Recorder) -> None:
    """Generate under watch."""
    import torch  # noqa: PLC0415 (not a dependency of the project)
    from transformers import LlamaConfig, LlamaForCausalLM  # type: ignore[import-not-found]  # noqa: PLC0415

    heads = max(1, args.width // 64)
    config = LlamaConfig(
        hidden_size=args.width, intermediate_size=args.width * 11 // 4, num_hidden_layers=args.layers,
        num_attention_heads=heads, num_key_value_heads=max(1, heads // 4), vocab_size=32_000,
    )  # fmt: skip
    torch.manual_seed(0)
    if args.gpu:
        torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if args.gpu else "cpu"):  # weights are drawn where they will lie
        model = LlamaForCausalLM(config).eval()
    if args.static:
        model.generation_config.cache_implementation = "static"
    prompt = torch.randint(0, config.vocab_size, (1, PROMPT_TOKENS), device=model.device)
    with Watch(model, system=recorder):
        for _ in range(CALLS):
            model.generate(
                input_ids=prompt, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
            )


if __name__ == "__main__":
    main()
