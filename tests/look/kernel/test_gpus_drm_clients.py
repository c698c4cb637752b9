from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.look.kernel.gpus import ask_clients, processes_of, read_clients
from unslow.look.system import LookError

KIB, MIB = 1024, 1024**2
# drivers/gpu/drm/amd, as its patch shows it, and i915's and xe's documentation
AMD = """\
pos:\t0
flags:\t02100002
drm-driver:\tamdgpu
drm-client-id:\t30
drm-pdev:\t0000:04:00.0
pasid:\t32785
drm-total-vram:\t544428 KiB
drm-resident-vram:\t544428 KiB
drm-memory-vram:\t544428 KiB
drm-memory-gtt: \t22528 KiB
drm-memory-cpu: \t0 KiB
drm-engine-gfx:\t39456116802 ns
"""
OLD_AMD = "drm-driver:\tamdgpu\ndrm-client-id:\t31\ndrm-pdev:\t0000:04:00.0\ndrm-memory-vram:\t100 KiB\n"
I915 = """\
drm-driver:\ti915
drm-client-id:\t7
drm-pdev:\t0000:03:00.0
drm-resident-local0:\t128 MiB
drm-resident-system0:\t64
"""


def proc(root: Path, pid: int, targets: dict[str, str | None]) -> None:
    for folder in ("fd", "fdinfo"):
        (root / str(pid) / folder).mkdir(parents=True)
    (root / str(pid) / "comm").write_text(f"program-{pid}\n")
    for number, (target, info) in enumerate(targets.items()):
        (root / str(pid) / "fd" / str(number)).symlink_to(target.split("#")[0])
        if info is not None:
            (root / str(pid) / "fdinfo" / str(number)).write_text(info)


def test_only_drm_file_descriptors_are_read(tmp_path: Path):
    proc(tmp_path, 42, {"/dev/null": "drm-pdev: no", "/dev/dri/renderD128": AMD, "/dev/dri/card0": AMD})
    proc(tmp_path, 43, {"/dev/dri/renderD128#1": OLD_AMD, "/dev/dri/renderD128#2": None})
    proc(tmp_path, 44, {"/dev/pts/0": ""})
    (tmp_path / "self").mkdir()
    answer = ask_clients(str(tmp_path))
    assert [(entry["pid"], entry["name"]) for entry in answer] == [
        (42, "program-42"),
        (42, "program-42"),
        (43, "program-43"),
    ]
    first, second = processes_of(read_clients(FakeSystem(asks={"drm clients": answer})), "0000:04:00.0")
    assert (first.pid, first.vram_bytes.need(), first.gtt_bytes.need()) == (42, 544428 * KIB, 22528 * KIB)
    assert (second.pid, second.vram_bytes.need()) == (43, 100 * KIB)


def test_drm_clients_of_this_machine_are_listed():
    assert isinstance(ask_clients(), list)


def test_a_missing_proc_is_a_failed_look(tmp_path: Path):
    with pytest.raises(LookError, match="No such file"):
        ask_clients(str(tmp_path / "none"))


def test_intel_memory_regions_are_parsed():
    answer = [{"pid": 7, "name": "x", "fdinfo": I915}]
    (process,) = processes_of(read_clients(FakeSystem(asks={"drm clients": answer})), "0000:03:00.0")
    assert (process.vram_bytes.need(), process.shared_bytes.need()) == (128 * MIB, 64)


@pytest.mark.parametrize("answer", [None, "x", [None], [{}],
                                    [{"pid": -1, "name": "a", "fdinfo": AMD}], [{"pid": 1, "name": "a"}],
                                    [{"pid": 1, "name": "a", "fdinfo": "drm-pdev:\t\n"}]])  # fmt: skip
def test_a_malformed_recording_has_no_drm_clients(answer):
    assert read_clients(FakeSystem(asks={"drm clients": answer})) == []


def test_only_drm_keys_of_fdinfo_are_parsed():
    text = "pos:\t0\ndrm-driver:\txe\nx drm-pdev: 1\n" + "drm-" * 10**4
    assert read_clients(FakeSystem(asks={"drm clients": [{"pid": 1, "name": "a", "fdinfo": text}]})) == []
