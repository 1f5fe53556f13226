"""The memory of live GPUs by fastai's names, against the fake driver of devices/fakenvml."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINE = """\
gpu uuid=GPU-aaaa1111-0000-0000-0000-000000000000 total=85899345920 reserved=679477248 used=1073741824 name=A100
gpu uuid=GPU-bbbb2222-0000-0000-0000-000000000000 total=25769803776 reserved=415236096 used=0 name=RTX 4090
"""
HEAD = """
import os, threading, time
from memestimate.live import *

def use(mib):
    with open(os.environ["FAKE_NVML"]) as f:
        lines = f.read().splitlines()
    lines[0] = " ".join(f"used={mib << 20}" if w.startswith("used=") else w for w in lines[0].split())
    with open(os.environ["FAKE_NVML"] + ".new", "w") as f:
        f.write("\\n".join(lines) + "\\n")
    os.rename(os.environ["FAKE_NVML"] + ".new", os.environ["FAKE_NVML"])
"""


def run(code: str, folder: Path, driver: Path | None, **environ: str) -> str:
    """Run Python in a process of its own, on the machine of the file `machine` in a folder; return what it prints."""
    (folder / "machine").write_text(MACHINE)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python/src"), "FAKE_NVML": str(folder / "machine"), **environ}
    env["LD_LIBRARY_PATH"] = str(driver or folder)
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_memory(tmp_path: Path, driver: Path) -> None:
    code = """
    print(gpu_mem_get(0), gpu_mem_get(1) == gpu_mem_get("GPU-bbbb"), gpu_mem_get() == gpu_mem_get(0))
    print(gpu_mem_get_all()[1].total, len(gpu_mem_get_all()), gpu_with_max_free_mem())
    print(gpu_mem_get_free(1), gpu_mem_get_used(), gpu_mem_get_free_no_cache(), gpu_mem_get_used_no_cache(1))
    import pynvml
    print(gpu_mem_get_used_fast(pynvml.nvmlDeviceGetHandleByIndex(0)))
    for wrong in (2, -1, "GPU-cccc"):
        try:
            gpu_mem_get(wrong)
        except ValueError as error:
            print(error)
    """
    assert run(code, tmp_path, driver).splitlines() == [
        "GPUMemory(total=81920, free=80248, used=1024) True True",
        "24576 2 (0, 80248)",
        "24180 1024 80248 0",
        "1024",
        "GPU 2: no such GPU, wanted one of 2",
        "GPU -1: no such GPU, wanted one of 2",
        "GPU 'GPU-cccc': 0 GPUs have a UUID that starts so, wanted one",
    ]


@pytest.mark.parametrize("visible", ["1", "GPU-bbbb2222", "GPU-bbbb2222-0000-0000-0000-000000000000,GPU-aaaa1111"])
def test_current_gpu_is_the_first_visible(tmp_path: Path, driver: Path, visible: str) -> None:
    assert run("print(gpu_mem_get().total)", tmp_path, driver, CUDA_VISIBLE_DEVICES=visible) == "24576\n"


def test_no_driver(tmp_path: Path) -> None:
    code = """
    with GPUMemTrace(ctx="nothing"):
        pass
    print(gpu_mem_get(), gpu_mem_get_all(), gpu_with_max_free_mem())
    """
    assert run(code, tmp_path, None).splitlines() == [
        "△Used Peaked MB:      0      0 (nothing: exit)",
        "GPUMemory(total=0, free=0, used=0) [] (None, 0)",
    ]


def test_trace(tmp_path: Path, driver: Path) -> None:
    code = """
    with GPUMemTrace(ctx="train") as trace:
        use(4096); time.sleep(0.1); use(3072); time.sleep(0.1)
        trace.report_n_reset("epoch 1")
        use(1000); time.sleep(0.1)
        print(repr(trace), trace.data())
        trace.silent()
        trace.report("unheard")
        trace.silent(False)
    after = trace.data()
    use(9999)
    assert trace.data() == after == (-2072, 0), after
    with GPUMemTrace(silent=True, on_exit_report=False):
        pass

    @gpu_mem_trace
    def step(n):
        use(5000); time.sleep(0.05); use(2024)
        return n + 1

    @GPUMemTrace(ctx="decorated")
    def other():
        use(1000)

    use(1000)
    print(step(1), step.__name__)
    other()
    """
    assert run(code, tmp_path, driver).splitlines() == [
        "△Used Peaked MB:  2,048  1,024 (train: epoch 1)",
        "△Used Peaked MB: -2,072      0 (train) GPUMemTraceData(used=-2072, peaked=0)",
        "△Used Peaked MB: -2,072      0 (train: exit)",
        "△Used Peaked MB:  1,024  2,976 (step: exit)",
        "2 step",
        "△Used Peaked MB: -1,024      0 (decorated: exit)",
    ]


def test_samples_every_millisecond(tmp_path: Path, driver: Path) -> None:
    code = """
    with GPUMemTrace(on_exit_report=False) as trace:
        time.sleep(1)
    print(trace.samples)
    """
    assert int(run(code, tmp_path, driver)) > 500


def test_driver_fails_meanwhile(tmp_path: Path, driver: Path) -> None:
    code = """
    trace = GPUMemTrace()
    trace.start()
    with open(os.environ["FAKE_NVML"], "w") as f:
        f.write("gpu uuid=GPU-aaaa1111 total=1000 fail=memory:15 name=A100\\n")
    time.sleep(0.2)
    try:
        trace.stop()
    except Exception as error:
        print(type(error).__name__, error)
    """
    assert run(code, tmp_path, driver).strip() == "NVMLError_GpuIsLost GPU is lost"
