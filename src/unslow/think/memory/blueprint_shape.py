"""The shape that vLLM and Transformers count by, from a model whose tensors are known by their GGUF names."""

from unslow.facts.blueprint import Blueprint
from unslow.facts.hf_shape import HfShape, LayerKind
from unslow.think.memory.llama_cpp.hyper import Hyper


def shape_of_blueprint(plan: Blueprint) -> HfShape:
    """The numbers of a decoder."""
    hyper, number, layers = Hyper(plan), plan.count, range(Hyper(plan).layers)
    latent = number("attention.kv_lora_rank") if hyper.is_latent else 0
    attending = [il for il in layers if hyper.attends(il)] or [0]
    windowed = [il for il in attending if hyper.windowed[il]]
    usual = (windowed or attending)[0]
    full = next((il for il in attending if not hyper.windowed[il]), usual)
    expert = number("expert_feed_forward_length", number("feed_forward_length")) if hyper.experts else 0
    recurrent = [il for il in layers if hyper.recurrent[il]]
    differs = bool(windowed) and hyper.key_length(full) != hyper.key_length(usual)
    return HfShape(
        layers=hyper.layers,
        width=hyper.width,
        vocabulary=hyper.vocabulary,
        heads=max(hyper.heads),
        kv_heads=max(hyper.heads) if latent else hyper.kv_heads[usual],
        key_length=number("attention.key_length_mla") if latent else hyper.key_length(usual),
        value_length=number("attention.value_length_mla") if latent else hyper.value_length(usual),
        feed_forward=number("feed_forward_length"),
        gated=any(t.name.endswith(("ffn_gate.weight", "ffn_gate_exps.weight")) for t in plan.tensors),
        tied="output.weight" not in plan.by_name,
        positions=number("context_length"),
        kinds=_kinds(hyper),
        window=hyper.window,
        full_kv_heads=hyper.kv_heads[full] if differs else 0,
        full_key_length=hyper.key_length(full) if differs else 0,
        shared_kv_layers=max(0, hyper.layers - hyper.layers_with_cache),
        experts=hyper.experts,
        experts_used=max(hyper.experts_used),
        expert_width=expert,
        shared_width=number("expert_shared_feed_forward_length", number("expert_shared_count") * expert),
        leading_dense=hyper.leading_dense,
        expert_step=max(1, number("interleave_moe_layer_step", 1)),
        kv_rank=latent,
        rope_length=number("rope.dimension_count") if latent else 0,
        query_rank=number("attention.q_lora_rank") if latent else 0,
        state=hyper.memory_elements if recurrent else 0,
        convolution=hyper.convolution_elements // max(1, number("ssm.conv_kernel", 2) - 1) if recurrent else 0,
        convolution_length=number("ssm.conv_kernel", 4),
        recurrent_parameters=_mixer_elements(plan, recurrent[0]) if recurrent else 0,
        attention_bias=any(t.name.endswith("attn_q.bias") for t in plan.tensors),
        head_norms=any(t.name.endswith("attn_q_norm.weight") for t in plan.tensors),
    )


def _kinds(hyper: Hyper) -> tuple[LayerKind, ...]:
    def kind(layer: int) -> LayerKind:
        if hyper.recurrent[layer]:
            return LayerKind.RECURRENT
        if not hyper.attends(layer):
            return LayerKind.BARE
        return LayerKind.WINDOW if hyper.windowed[layer] else LayerKind.FULL

    kinds = tuple(kind(layer) for layer in range(hyper.layers))
    return () if set(kinds) == {LayerKind.FULL} else kinds


def _mixer_elements(plan: Blueprint, layer: int) -> int:
    """The weights of one recurrent layer without its feed-forward and its norms."""
    total = 0
    for tensor in plan.layer_tensors[layer]:
        if not tensor.name.startswith("ffn_") and not tensor.name.endswith("norm.weight"):
            elements = 1
            for n in tensor.shape:
                elements *= n
            total += elements
    return total
