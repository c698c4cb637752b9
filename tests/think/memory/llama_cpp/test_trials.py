import pytest

from unslow.facts.model import Blueprint, MetadataValue, Tensor
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings
from unslow.think.memory.llama_cpp.places import Places

GPU, HOST = 0, 1


def place(name: str, *shape: int, kind: str = "F32", others: tuple[str, ...] = (), **numbers: MetadataValue) -> int:
    keys = {f"mamba2.{key}": value for key, value in {"block_count": 1, **numbers}.items()}
    tensors = [Tensor(name, kind, shape, 0), *(Tensor(other, "F32", (1,), 0) for other in others)]
    blueprint = Blueprint(architecture="mamba2", metadata=keys, tensors=tensors)
    return Places(Hyper(blueprint), Settings(), [1.0]).tensor(name)


@pytest.mark.parametrize(("state", "expected"), [(128, GPU), (256, GPU), (64, HOST)])
def test_ssm_decay_without_a_kernel_stays_on_the_host(state: int, expected: int) -> None:
    numbers: dict[str, MetadataValue] = {"ssm.state_size": state, "ssm.inner_size": 4096}
    assert place("blk.0.ssm_a", 1, 64, others=("blk.0.ssm_conv1d.weight", "blk.0.ssm_d"), **numbers) == expected


def test_multiplied_ssm_decay_goes_to_the_gpu() -> None:
    assert place("blk.0.ssm_a", 32, others=("blk.0.ssm_conv1d.weight",)) == GPU


def test_kimi_ssm_decay_stays_on_the_host() -> None:
    assert place("blk.0.ssm_a", 1, 32, others=("blk.0.ssm_conv1d_q.weight",)) == HOST


@pytest.mark.parametrize(("channels", "expected"), [(1792, GPU), (1760, HOST)])
def test_convolution_needs_whole_blocks_of_channels(channels: int, expected: int) -> None:
    assert place("blk.0.ssm_conv1d.weight", 4, channels) == expected


@pytest.mark.parametrize(("kind", "expected"), [("Q4_K", GPU), ("TQ2_0", HOST)])
def test_matrix_type_without_a_kernel_stays_on_the_host(kind: str, expected: int) -> None:
    assert place("blk.0.ffn_up.weight", 4096, 256, kind=kind) == expected
