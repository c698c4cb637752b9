from contextlib import ExitStack, suppress
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled_machine import LiveFake

from unslow.look.sampler.sources import gpu_sysfs, host
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

VMSTAT = "nr_free_pages 5\npswpin {}\npswpout 7\npgmajfault 9\n"
PARSERS = (
    lambda text: host.number_after(b"MemAvailable:", text, "", b"kB"), host.parse_hz, host.parse_periods,
    lambda text: host.number_after(b" total=", text, ""), lambda text: host.number_after(b"\npswpin ", text, ""),
    lambda text: host.open_processors(LiveFake(files={"/proc/stat": text}), [], ExitStack())[0].read(1.0),
    lambda text: host.ProcessCounts(LiveFake(files={"/proc/1/stat": text}), [1], ExitStack()).read(),
    lambda text: host.parse_idle_ticks(text, 2), lambda text: host.parse_sectors_read(text, frozenset({b"sda"})),
)  # fmt: skip
HOSTILE = (
    b"", b"\0" * 100, b"cpu \ncpu0 \n", b"cpu  1 2\ncpu0 a b c d e\ncpu1 1\n", b"MemAvailable: kB", b" total=\n",
    b"MemAvailable: " + b"9" * 5000 + b" kB\n", b"some avg10=0 total=1e9\n", b"\npswpin \n", b"\npswpin -\n",
    b"1 (" + b")" * 500, b"8 0 sda 1 2 x 4 5\n", b"nr_periods \nnr_throttled \n", b"\xff\xfe" * 50, b"-1\n",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("parse", PARSERS)
def test_malformed_sampled_files_are_a_look_error_at_most(parse, text: bytes):
    with suppress(LookError):
        parse(text)


@given(st.binary(max_size=300))
def test_no_bytes_crash_a_sampled_file_parser(text: bytes):
    for parse in PARSERS:
        with suppress(LookError):
            parse(text)


def test_all_192_cores_are_read():
    lines = "".join(f"cpu{n} 1000000 20000 300000 {n} 20588 0 4119 101151 0 0\n" for n in range(192))
    live = LiveFake(files={"/proc/stat": f"cpu  1 2 3 4 5 6 7 8 9 10\n{lines}intr 0 0\n", "/proc/self/stat": "1 (x) S"})
    (reading,) = host.open_processors(live, [], ExitStack())
    assert len(reading.columns) == 6 + 192
    reading.read(1.0)
    assert len(list(reading.read(2.0))) == 6 + 192


def test_swap_pages_become_bytes_per_second():
    live = LiveFake(files={"/proc/vmstat": VMSTAT.format(100)})
    (reading,) = host.open_paging(live, [], ExitStack())
    reading.read(1.0)
    live.files["/proc/vmstat"] = VMSTAT.format(110)
    assert list(reading.read(1.5)) == [10 * 4096 / 0.5, 0.0, 0.0]


def test_partitions_and_mapped_disks_are_not_counted_twice():
    text = "   8 0 sda 10 0 100 4\n   8 1 sda1 10 0 100 4\n 253 0 dm-0 10 0 100 4\n 259 0 nvme0n1 5 0 50 1\n"
    live = LiveFake(files={"/proc/diskstats": text}, folders={"/sys/block": ["sda", "dm-0", "nvme0n1", "loop0"]})
    (reading,) = host.open_disks(live, [], ExitStack())
    reading.read(1.0)
    live.files["/proc/diskstats"] = text.replace("10 0 100", "12 0 300")
    assert list(reading.read(2.0)) == [200 * 512]


def test_pressure_is_the_stalled_share_between_two_reads():
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    live = LiveFake(files={f"/proc/pressure/{kind}": text.format(1_000_000) for kind in host.PRESSURE_KINDS})
    cpu, _memory, _io = host.open_pressure(live, [], ExitStack())
    assert all(isnan(value) for value in cpu.read(1.0))
    live.files["/proc/pressure/cpu"] = text.format(1_250_000)
    assert list(cpu.read(2.0)) == [0.25]


def test_throttled_share_is_that_of_the_runtimes_cgroup_periods():
    stat = "usage_usec 1\nnr_periods {}\nnr_throttled {}\nthrottled_usec 5\n"
    live = LiveFake(
        files={
            "/proc/7/cgroup": "0::/box\n",
            "/proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/sys/fs/cgroup/box/cpu.max": "200000 100000\n",
            "/sys/fs/cgroup/box/cpu.stat": stat.format(100, 10),
        }
    )
    (reading,) = host.open_quota(live, [7], ExitStack())
    assert all(isnan(value) for value in reading.read(1.0))
    live.files["/sys/fs/cgroup/box/cpu.stat"] = stat.format(110, 15)
    assert list(reading.read(2.0)) == [0.5]
    live.files["/sys/fs/cgroup/box/cpu.max"] = "max 100000\n"
    with pytest.raises(LookError, match="no CPU quota"):
        host.open_quota(live, [7], ExitStack())


def test_cpu_frequency_is_converted_to_hertz():
    path = host.CURRENT_FREQUENCY.format(0)
    (reading,) = host.open_frequency(LiveFake(files={path: "2800000\n"}), [], ExitStack())
    assert list(reading.read(0.0)) == [2.8e9]


def test_an_amd_gpu_is_sampled_from_sysfs():
    card = "/sys/class/drm/card1/device"
    files = {
        f"{card}/vendor": "0x1002\n", f"{card}/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c2:00.0\n",
        f"{card}/gpu_busy_percent": "97\n", f"{card}/mem_info_vram_used": "368111616\n",
        f"{card}/current_link_speed": "16.0 GT/s PCIe\n", f"{card}/current_link_width": "16\n",
        f"{card}/hwmon/hwmon6/temp1_label": "edge\n", f"{card}/hwmon/hwmon6/temp1_input": "61000\n",
        f"{card}/hwmon/hwmon6/freq1_label": "sclk\n", f"{card}/hwmon/hwmon6/freq1_input": "2482000000\n",
        f"{card}/hwmon/hwmon6/power1_average": "88046000\n",
    }  # fmt: skip
    hwmon = [path.rpartition("/")[2] for path in files if "hwmon6/" in path]
    folders = {"/sys/class/drm": ["card1"], f"{card}/hwmon": ["hwmon6"], f"{card}/hwmon/hwmon6": hwmon}
    live = LiveFake(files=files, folders=folders)
    readings = gpu_sysfs.open_amdgpu(live, [], ExitStack())
    seen = {column: value for r in readings for column, value in zip(r.columns, r.read(0.0), strict=True)}
    assert seen["busy"] == pytest.approx(0.97)
    assert (seen["clock_hz"], seen["power_w"]) == (2.482e9, pytest.approx(88.046))
    assert (seen["temperature_c"], seen["pcie_generation"], seen["pcie_width"]) == (61.0, 4, 16)
    live.files[f"{card}/gpu_busy_percent"] = "busy\n"
    with pytest.raises(LookError, match="not a number"):
        readings[0].read(0.0)


def test_an_intel_gpu_is_sampled_from_sysfs():
    card = "/sys/class/drm/card0"
    throttle = f"{card}/gt/gt0"
    files = {
        f"{card}/device/vendor": "0x8086\n", f"{card}/device/uevent": "DRIVER=i915\nPCI_SLOT_NAME=0000:03:00.0\n",
        f"{throttle}/rps_act_freq_mhz": "2400\n", f"{throttle}/throttle_reason_status": "1\n",
        f"{throttle}/throttle_reason_pl1": "1\n", f"{throttle}/throttle_reason_thermal": "0\n",
        f"{card}/device/hwmon/hwmon1/energy1_input": "1000000\n",
    }  # fmt: skip
    names = ["rps_act_freq_mhz", "throttle_reason_status", "throttle_reason_pl1", "throttle_reason_thermal"]
    folders = {
        "/sys/class/drm": ["card0"], throttle: names, f"{card}/device/hwmon": ["hwmon1"],
        f"{card}/device/hwmon/hwmon1": ["energy1_input"],
    }  # fmt: skip
    live = LiveFake(files=files, folders=folders)
    readings = {r.columns[0]: r for r in gpu_sysfs.open_intel_gpu(live, [], ExitStack())}
    assert list(readings["clock_hz"].read(0.0)) == [2.4e9]
    readings["power_w"].read(0.0)
    live.files[f"{card}/device/hwmon/hwmon1/energy1_input"] = "51000000\n"
    assert list(readings["power_w"].read(1.0)) == [pytest.approx(50.0)]
    (bits,) = readings["reason_bits"].read(0.0)
    assert readings["reason_bits"].device.reason_names(int(bits)) == ["pl1"]


def test_a_followed_file_is_reread_and_a_missing_one_is_a_look_error(tmp_path):
    path = tmp_path / "value"
    path.write_text("1")
    file = LiveSystem().follow(str(path), 4)
    assert file() == b"1"
    path.write_text("23456")
    assert file() == b"2345"
    file.close()
    file.close()
    with pytest.raises(LookError):
        file()
    with pytest.raises(LookError, match="not found"):
        LiveSystem().follow(str(tmp_path / "none"))


def test_the_sampled_clock_is_that_of_an_allowed_fast_core():
    cores = "/sys/devices/system/cpu"
    files = {"/proc/7/status": "Name:\tllama\nCpus_allowed_list:\t2-7\n", f"{cores}/online": "0-7\n"}
    files |= {f"{cores}/cpu{n}/cpu_capacity": "530\n" if n < 4 else "1024\n" for n in range(8)}
    files[host.CURRENT_FREQUENCY.format(4)] = "2352000\n"
    (reading,) = host.open_frequency(LiveFake(files=files), [7], ExitStack())
    assert (reading.columns, list(reading.read(0.0))) == (("own_clock_hz",), [2.352e9])
