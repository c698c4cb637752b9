"""A test as llama-bench writes it with `-o json`: its own names, in its own order, so that others' tools read it.

What a version does not write, or what is not known, has the value that llama-bench gives where nothing is set.
"""

import msgspec


class BenchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One test: how it was set up, how many tokens, and how long each repeat took."""

    build_commit: str = "unknown"
    build_number: int = 0
    cpu_info: str = ""
    gpu_info: str = ""
    backends: str = ""
    model_filename: str = ""
    model_type: str = ""
    model_size: int = 0
    model_n_params: int = 0
    n_batch: int = 0
    n_ubatch: int = 0
    n_threads: int = 0
    cpu_mask: str = "0x0"
    cpu_strict: bool = False
    poll: int = 50
    type_k: str = "f16"
    type_v: str = "f16"
    n_gpu_layers: int = -1
    n_cpu_moe: int = 0
    split_mode: str = "layer"
    main_gpu: int = 0
    no_kv_offload: bool = False
    flash_attn: int = -1
    """1 on, 0 off, -1 left to llama.cpp."""
    devices: str = "auto"
    tensor_split: str = "0.00"
    tensor_buft_overrides: str = "none"
    load_mode: str = "auto"
    lazy_mode: str = "auto"
    embeddings: bool = False
    no_op_offload: int = 0
    no_host: bool = False
    repack: bool = True
    fit_target: int = 0
    fit_min_ctx: int = 0
    n_prompt: int = 0
    n_gen: int = 0
    n_depth: int = 0
    test_time: str = ""
    avg_ns: int = 0
    stddev_ns: int = 0
    avg_ts: float = 0.0
    stddev_ts: float = 0.0
    samples_ns: tuple[int, ...] = ()
    samples_ts: tuple[float, ...] = ()

    @property
    def test(self) -> str:
        """The name that llama-bench gives the test: pp512, tg128 @ d4096, pp512+tg128."""
        parts = [f"pp{self.n_prompt}"] * (self.n_prompt > 0) + [f"tg{self.n_gen}"] * (self.n_gen > 0)
        return "+".join(parts) + (f" @ d{self.n_depth}" if self.n_depth else "")


IDENTITY = ("build_commit", "build_number", "cpu_info", "gpu_info", "model_filename", "model_size")
"""What a benchmark has fields of its own for."""
RESULTS = (
    "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
    "samples_ts",
)  # fmt: skip
"""What belongs to one test; all else is how it was set up."""
SETTINGS = {
    "backends": "runtime.backends",
    "model_n_params": "model.parameters",
    "n_batch": "runtime.batch",
    "n_ubatch": "runtime.ubatch",
    "n_threads": "runtime.threads",
    "cpu_mask": "runtime.cpu_list",
    "poll": "runtime.polling",
    "type_k": "runtime.kv_type_k",
    "type_v": "runtime.kv_type_v",
    "n_gpu_layers": "runtime.gpu_layers_set",
    "split_mode": "runtime.split_mode",
    "main_gpu": "runtime.main_gpu",
    "flash_attn": "runtime.flash_attention",
    "devices": "runtime.device_set",
    "tensor_split": "runtime.tensor_split",
    "tensor_buft_overrides": "runtime.tensor_overrides",
    "load_mode": "runtime.load_mode",
    "repack": "runtime.repack",
}
"""The fact that each of its settings is; others are kept under `llama_bench.` and their own name."""
