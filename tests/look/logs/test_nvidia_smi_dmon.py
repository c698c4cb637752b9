import pytest

from unslow.facts.values import NOT_LOOKED, Absence, Unknown, reported_fact
from unslow.look.logs.nvidia_smi import parse_gpus
from unslow.look.logs.nvidia_smi_rows import DMON_SOURCE, parse_dmon_rows, summarise_series

MIB = 1024**2
NEW = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
    0    111     61      -     25      7      0      0      0      0   9501   1695
    1     86     70     74     18      6      0      0      0      0   9501   1410
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
    0    112     62      -     75      9      0      0      0      0   9501   1725
"""
OLD = """\
#Date       Time        gpu   pwr  temp    sm   mem  mclk  pclk pviol tviol    fb  bar1 rxpci txpci
#YYYYMMDD   HH:MM:SS    Idx     W     C     %     %   MHz   MHz     %  bool    MB    MB  MB/s  MB/s
 20161111   12:00:01      0   111    83    25     7  4513  1683     0     0 11651     2    41     8
"""


def test_the_latest_dmon_row_of_each_gpu_is_parsed():
    first, second = parse_gpus(NEW)
    assert (first.index, first.power_w, first.busy) == (
        0,
        reported_fact(112.0, DMON_SOURCE),
        reported_fact(0.75, DMON_SOURCE),
    )
    assert (first.clock_hz.need(), first.memory_clock_hz.need()) == (1725e6, 9501e6)
    assert isinstance(first.memory_temperature_c, Unknown)
    assert first.memory_temperature_c.absence is Absence.NOT_SUPPORTED
    assert (second.index, second.memory_temperature_c.need(), second.memory_busy.need()) == (1, 74, 0.06)
    assert first.vram_used_bytes == NOT_LOOKED


def test_dmon_dates_old_column_names_and_pcie_rates_are_parsed():
    (gpu,) = parse_gpus(OLD)
    assert gpu.vram_used_bytes == reported_fact(11651 * MIB, DMON_SOURCE)
    assert gpu.temperature_c == reported_fact(83.0, DMON_SOURCE)
    assert gpu.pcie_receive_bytes_per_s == reported_fact(41e6, DMON_SOURCE)
    assert gpu.pcie_transmit_bytes_per_s == reported_fact(8e6, DMON_SOURCE)
    assert parse_dmon_rows(OLD)[0]["timestamp"] == "2016/11/11 12:00:01"


def test_dmon_rows_are_summarised_as_a_series():
    first, _ = summarise_series(parse_dmon_rows(NEW), source=DMON_SOURCE)
    assert (first.samples, first.busy, first.power_max_w) == (
        2,
        reported_fact(0.5, DMON_SOURCE),
        reported_fact(112.0, DMON_SOURCE),
    )


def test_quoted_and_csv_dmon_output_is_parsed():
    quoted = "\r\n".join(f"> {line}" for line in NEW.splitlines())
    assert parse_gpus(quoted) == parse_gpus(NEW)
    assert parse_gpus("#gpu, pwr, sm\n#Idx, W, %\n0, 70, 5\n")[0].power_w == reported_fact(70.0, DMON_SOURCE)


@pytest.mark.parametrize(
    "text", ["", "# gpu\n", "# gpu pwr\nx y\n", "Not supported on the device(s)\n", "#\n0 1\n", "# gpu% pwr\n0 1\n"]
)
def test_text_that_is_not_dmon_has_no_rows(text: str):
    assert parse_gpus(text) == ()
