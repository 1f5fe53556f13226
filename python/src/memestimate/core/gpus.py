"""GPUs that a recording can pretend to run on.

The names are those of ``memestimate gpus``. Memory is what CUDA reports as the total,
capability and multiprocessors are NVIDIA's (CUDA programming guide, compute capabilities).
The table is the program's own: ``go test ./simulate/gpu -update`` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .words import FORM_FACTORS, GPU_NOISE, GPU_SERIES


@dataclass(frozen=True)
class GPU:
    """A device as PyTorch sees it; memory in bytes."""

    id: str
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int


GPUS = (
    GPU("h200", "NVIDIA H200", (9, 0), 132, 150_109_880_320),
    GPU("h200-nvl", "NVIDIA H200 NVL", (9, 0), 132, 150_109_880_320),
    GPU("h100-80gb", "NVIDIA H100 80GB HBM3", (9, 0), 132, 84_929_347_584),
    GPU("h100-pcie", "NVIDIA H100 PCIe", (9, 0), 114, 84_929_347_584),
    GPU("h100-nvl", "NVIDIA H100 NVL", (9, 0), 132, 99_857_989_632),
    GPU("h800", "NVIDIA H800", (9, 0), 132, 84_929_347_584),
    GPU("h20", "NVIDIA H20", (9, 0), 78, 102_005_473_280),
    GPU("gh200", "NVIDIA GH200 480GB", (9, 0), 132, 101_468_602_368),
    GPU("b200", "NVIDIA B200", (10, 0), 148, 191_504_056_320),
    GPU("gb200", "NVIDIA GB200", (10, 0), 148, 196_494_753_792),
    GPU("b300", "NVIDIA B300 SXM6 AC", (10, 3), 148, 286_689_067_008),
    GPU("gb300", "NVIDIA GB300", (10, 3), 148, 295_279_001_600),
    GPU("gb10", "NVIDIA GB10", (12, 1), 48, 128_419_102_720),
    GPU("a100-40gb", "NVIDIA A100-SXM4-40GB", (8, 0), 108, 42_285_268_992),
    GPU("a100-64gb", "NVIDIA A100-SXM-64GB", (8, 0), 124, 67_967_647_744),
    GPU("a100-80gb", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 84_974_239_744),
    GPU("a800-40gb", "NVIDIA A800 40GB Active", (8, 0), 108, 42_285_268_992),
    GPU("a800-80gb", "NVIDIA A800-SXM4-80GB", (8, 0), 108, 84_974_239_744),
    GPU("a30", "NVIDIA A30", (8, 0), 56, 25_216_745_472),
    GPU("a2", "NVIDIA A2", (8, 6), 10, 15_611_199_488),
    GPU("a10", "NVIDIA A10", (8, 6), 72, 23_600_300_032),
    GPU("a10g", "NVIDIA A10G", (8, 6), 80, 23_609_475_072),
    GPU("a16", "NVIDIA A16", (8, 6), 10, 15_611_199_488),
    GPU("a40", "NVIDIA A40", (8, 6), 84, 47_608_692_736),
    GPU("l4", "NVIDIA L4", (8, 9), 58, 23_580_639_232),
    GPU("l20", "NVIDIA L20", (8, 9), 92, 47_663_022_080),
    GPU("l40", "NVIDIA L40", (8, 9), 142, 47_663_022_080),
    GPU("l40s", "NVIDIA L40S", (8, 9), 142, 47_696_445_440),
    GPU("t4", "Tesla T4", (7, 5), 40, 15_655_829_504),
    GPU("v100-16gb", "Tesla V100-SXM2-16GB", (7, 0), 80, 16_935_682_048),
    GPU("v100-32gb", "Tesla V100-SXM2-32GB", (7, 0), 80, 34_079_899_648),
    GPU("v100s", "Tesla V100S-PCIE-32GB", (7, 0), 80, 34_069_282_816),
    GPU("p100-12gb", "Tesla P100-PCIE-12GB", (6, 0), 56, 12_776_898_560),
    GPU("p100-16gb", "Tesla P100-PCIE-16GB", (6, 0), 56, 17_061_380_096),
    GPU("p40", "Tesla P40", (6, 1), 30, 24_030_216_192),
    GPU("p4", "Tesla P4", (6, 1), 20, 7_977_566_208),
    GPU("rtx-a2000-6gb", "NVIDIA RTX A2000", (8, 6), 26, 6_119_489_536),
    GPU("rtx-a2000-12gb", "NVIDIA RTX A2000 12GB", (8, 6), 26, 12_454_985_728),
    GPU("rtx-a4000", "NVIDIA RTX A4000", (8, 6), 48, 16_749_953_024),
    GPU("rtx-a4500", "NVIDIA RTX A4500", (8, 6), 56, 21_044_920_320),
    GPU("rtx-a5000", "NVIDIA RTX A5000", (8, 6), 64, 25_307_381_760),
    GPU("rtx-a5500", "NVIDIA RTX A5500", (8, 6), 80, 25_307_381_760),
    GPU("rtx-a6000", "NVIDIA RTX A6000", (8, 6), 84, 50_925_535_232),
    GPU("rtx-2000-ada", "NVIDIA RTX 2000 Ada Generation", (8, 9), 22, 16_749_953_024),
    GPU("rtx-4000-ada", "NVIDIA RTX 4000 Ada Generation", (8, 9), 48, 20_937_965_568),
    GPU("rtx-4500-ada", "NVIDIA RTX 4500 Ada Generation", (8, 9), 60, 25_232_932_864),
    GPU("rtx-5000-ada", "NVIDIA RTX 5000 Ada Generation", (8, 9), 100, 33_714_864_128),
    GPU("rtx-5880-ada", "NVIDIA RTX 5880 Ada Generation", (8, 9), 110, 50_787_778_560),
    GPU("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 50_925_535_232),
    GPU("rtx-pro-4000", "NVIDIA RTX PRO 4000 Blackwell", (12, 0), 70, 25_124_929_536),
    GPU("rtx-pro-4500", "NVIDIA RTX PRO 4500 Blackwell", (12, 0), 82, 33_607_909_376),
    GPU("rtx-pro-5000", "NVIDIA RTX PRO 5000 Blackwell", (12, 0), 110, 50_465_865_728),
    GPU("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 188, 101_897_469_952),
    GPU("quadro-rtx-4000", "Quadro RTX 4000", (7, 5), 36, 8_160_018_432),
    GPU("quadro-rtx-5000", "Quadro RTX 5000", (7, 5), 48, 16_749_953_024),
    GPU("quadro-rtx-6000", "Quadro RTX 6000", (7, 5), 72, 23_782_752_256),
    GPU("quadro-rtx-8000", "Quadro RTX 8000", (7, 5), 72, 47_673_507_840),
    GPU("rtx-5090", "NVIDIA GeForce RTX 5090", (12, 0), 170, 33_669_578_752),
    GPU("rtx-5080", "NVIDIA GeForce RTX 5080", (12, 0), 84, 16_600_006_656),
    GPU("rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", (12, 0), 70, 16_600_006_656),
    GPU("rtx-5070", "NVIDIA GeForce RTX 5070", (12, 0), 48, 12_348_030_976),
    GPU("rtx-5060-ti-16gb", "NVIDIA GeForce RTX 5060 Ti 16GB", (12, 0), 36, 16_600_006_656),
    GPU("rtx-5060-ti-8gb", "NVIDIA GeForce RTX 5060 Ti", (12, 0), 36, 8_074_035_200),
    GPU("rtx-5060", "NVIDIA GeForce RTX 5060", (12, 0), 30, 8_074_035_200),
    GPU("rtx-5050", "NVIDIA GeForce RTX 5050", (12, 0), 20, 8_074_035_200),
    GPU("rtx-5090-laptop", "NVIDIA GeForce RTX 5090 Laptop GPU", (12, 0), 82, 25_124_929_536),
    GPU("rtx-5080-laptop", "NVIDIA GeForce RTX 5080 Laptop GPU", (12, 0), 60, 16_600_006_656),
    GPU("rtx-5070-ti-laptop", "NVIDIA GeForce RTX 5070 Ti Laptop GPU", (12, 0), 46, 12_348_030_976),
    GPU("rtx-5070-laptop", "NVIDIA GeForce RTX 5070 Laptop GPU", (12, 0), 36, 8_074_035_200),
    GPU("rtx-5060-laptop", "NVIDIA GeForce RTX 5060 Laptop GPU", (12, 0), 26, 8_074_035_200),
    GPU("rtx-4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 25_393_692_672),
    GPU("rtx-4090-d", "NVIDIA GeForce RTX 4090 D", (8, 9), 114, 25_232_932_864),
    GPU("rtx-4080-super", "NVIDIA GeForce RTX 4080 SUPER", (8, 9), 80, 16_706_961_408),
    GPU("rtx-4080", "NVIDIA GeForce RTX 4080", (8, 9), 76, 16_706_961_408),
    GPU("rtx-4070-ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", (8, 9), 66, 16_706_961_408),
    GPU("rtx-4070-ti", "NVIDIA GeForce RTX 4070 Ti", (8, 9), 60, 12_444_499_968),
    GPU("rtx-4070-super", "NVIDIA GeForce RTX 4070 SUPER", (8, 9), 56, 12_444_499_968),
    GPU("rtx-4070", "NVIDIA GeForce RTX 4070", (8, 9), 46, 12_444_499_968),
    GPU("rtx-4060-ti-16gb", "NVIDIA GeForce RTX 4060 Ti 16GB", (8, 9), 34, 16_706_961_408),
    GPU("rtx-4060-ti-8gb", "NVIDIA GeForce RTX 4060 Ti", (8, 9), 34, 8_160_018_432),
    GPU("rtx-4060", "NVIDIA GeForce RTX 4060", (8, 9), 24, 8_318_222_336),
    GPU("rtx-4090-laptop", "NVIDIA GeForce RTX 4090 Laptop GPU", (8, 9), 76, 16_706_961_408),
    GPU("rtx-4080-laptop", "NVIDIA GeForce RTX 4080 Laptop GPU", (8, 9), 58, 12_444_499_968),
    GPU("rtx-4070-laptop", "NVIDIA GeForce RTX 4070 Laptop GPU", (8, 9), 36, 8_160_018_432),
    GPU("rtx-4060-laptop", "NVIDIA GeForce RTX 4060 Laptop GPU", (8, 9), 24, 8_160_018_432),
    GPU("rtx-4050-laptop", "NVIDIA GeForce RTX 4050 Laptop GPU", (8, 9), 20, 6_055_526_400),
    GPU("rtx-3090-ti", "NVIDIA GeForce RTX 3090 Ti", (8, 6), 84, 25_296_896_000),
    GPU("rtx-3090", "NVIDIA GeForce RTX 3090", (8, 6), 82, 25_438_126_080),
    GPU("rtx-3080-ti", "NVIDIA GeForce RTX 3080 Ti", (8, 6), 80, 12_487_491_584),
    GPU("rtx-3080-12gb", "NVIDIA GeForce RTX 3080 12GB", (8, 6), 70, 12_487_491_584),
    GPU("rtx-3080", "NVIDIA GeForce RTX 3080", (8, 6), 68, 10_350_493_696),
    GPU("rtx-3070-ti", "NVIDIA GeForce RTX 3070 Ti", (8, 6), 48, 8_223_981_568),
    GPU("rtx-3070", "NVIDIA GeForce RTX 3070", (8, 6), 46, 8_223_981_568),
    GPU("rtx-3060-ti", "NVIDIA GeForce RTX 3060 Ti", (8, 6), 38, 8_223_981_568),
    GPU("rtx-3060", "NVIDIA GeForce RTX 3060", (8, 6), 28, 12_622_168_064),
    GPU("rtx-3050-8gb", "NVIDIA GeForce RTX 3050 8GB", (8, 6), 20, 8_223_981_568),
    GPU("rtx-3050-6gb", "NVIDIA GeForce RTX 3050", (8, 6), 18, 6_174_015_488),
    GPU("rtx-3080-ti-laptop", "NVIDIA GeForce RTX 3080 Ti Laptop GPU", (8, 6), 58, 16_749_953_024),
    GPU("rtx-3080-laptop-16gb", "NVIDIA GeForce RTX 3080 Laptop GPU 16GB", (8, 6), 48, 16_749_953_024),
    GPU("rtx-3080-laptop-8gb", "NVIDIA GeForce RTX 3080 Laptop GPU", (8, 6), 48, 8_223_981_568),
    GPU("rtx-3070-laptop", "NVIDIA GeForce RTX 3070 Laptop GPU", (8, 6), 40, 8_223_981_568),
    GPU("rtx-3060-laptop", "NVIDIA GeForce RTX 3060 Laptop GPU", (8, 6), 30, 6_174_015_488),
    GPU("rtx-3050-laptop", "NVIDIA GeForce RTX 3050 Laptop GPU", (8, 6), 16, 4_080_009_216),
    GPU("titan-rtx", "NVIDIA TITAN RTX", (7, 5), 72, 25_360_859_136),
    GPU("rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti", (7, 5), 68, 11_531_190_272),
    GPU("rtx-2080-super", "NVIDIA GeForce RTX 2080 SUPER", (7, 5), 48, 8_342_470_656),
    GPU("rtx-2080", "NVIDIA GeForce RTX 2080", (7, 5), 46, 8_342_470_656),
    GPU("rtx-2070-super", "NVIDIA GeForce RTX 2070 SUPER", (7, 5), 40, 8_342_470_656),
    GPU("rtx-2070", "NVIDIA GeForce RTX 2070", (7, 5), 36, 8_342_470_656),
    GPU("rtx-2060-super", "NVIDIA GeForce RTX 2060 SUPER", (7, 5), 34, 8_342_470_656),
    GPU("rtx-2060", "NVIDIA GeForce RTX 2060", (7, 5), 30, 6_215_958_528),
    GPU("gtx-1660-ti", "NVIDIA GeForce GTX 1660 Ti", (7, 5), 24, 6_215_958_528),
    GPU("gtx-1650", "NVIDIA GeForce GTX 1650", (7, 5), 14, 4_090_494_976),
    GPU("titan-v", "NVIDIA TITAN V", (7, 0), 80, 12_637_437_952),
    GPU("titan-xp", "NVIDIA TITAN Xp", (6, 1), 30, 12_776_898_560),
    GPU("gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti", (6, 1), 28, 11_703_156_736),
    GPU("gtx-1080", "NVIDIA GeForce GTX 1080", (6, 1), 20, 8_503_951_360),
    GPU("gtx-1070-ti", "NVIDIA GeForce GTX 1070 Ti", (6, 1), 19, 8_503_951_360),
    GPU("gtx-1070", "NVIDIA GeForce GTX 1070", (6, 1), 15, 8_503_951_360),
    GPU("gtx-1060-3gb", "NVIDIA GeForce GTX 1060 3GB", (6, 1), 9, 3_145_728_000),
    GPU("gtx-1060-6gb", "NVIDIA GeForce GTX 1060 6GB", (6, 1), 10, 6_356_467_712),
    GPU("jetson-thor", "NVIDIA Jetson AGX Thor", (11, 0), 20, 130_996_502_528),
    GPU("jetson-agx-orin-64gb", "NVIDIA Jetson AGX Orin 64GB", (8, 7), 16, 65_498_251_264),
    GPU("jetson-agx-orin-32gb", "NVIDIA Jetson AGX Orin 32GB", (8, 7), 14, 31_997_296_640),
    GPU("jetson-orin-nx-16gb", "NVIDIA Jetson Orin NX 16GB", (8, 7), 8, 16_320_036_864),
    GPU("jetson-orin-nx-8gb", "NVIDIA Jetson Orin NX 8GB", (8, 7), 8, 7_838_105_600),
    GPU("jetson-orin-nano-4gb", "NVIDIA Jetson Orin Nano 4GB", (8, 7), 4, 3_543_138_304),
    GPU("jetson-orin-nano-8gb", "NVIDIA Jetson Orin Nano 8GB", (8, 7), 8, 7_838_105_600),
    GPU("jetson-agx-xavier", "NVIDIA Jetson AGX Xavier", (7, 2), 8, 15_891_169_280),
    GPU("mi50-16gb", "AMD Instinct MI50 16GB", (9, 0), 132, 17_157_849_088),
    GPU("mi50-32gb", "AMD Instinct MI50 32GB", (9, 0), 132, 34_337_718_272),
    GPU("mi100", "AMD Instinct MI100", (9, 0), 132, 34_337_718_272),
    GPU("mi210", "AMD Instinct MI210", (9, 0), 132, 68_697_456_640),
    GPU("mi250", "AMD Instinct MI250", (9, 0), 132, 68_697_456_640),
    GPU("mi250x", "AMD Instinct MI250X", (9, 0), 132, 68_697_456_640),
    GPU("mi300a", "AMD Instinct MI300A", (9, 0), 132, 103_079_215_104),
    GPU("mi300x", "AMD Instinct MI300X", (9, 0), 132, 205_621_559_296),
    GPU("mi308x", "AMD Instinct MI308X", (9, 0), 132, 205_621_559_296),
    GPU("mi325x", "AMD Instinct MI325X", (9, 0), 132, 274_341_036_032),
    GPU("mi350x", "AMD Instinct MI350X", (9, 0), 132, 308_700_774_400),
    GPU("mi355x", "AMD Instinct MI355X", (9, 0), 132, 308_700_774_400),
    GPU("rx-6700", "AMD Radeon RX 6700", (9, 0), 132, 10_715_398_144),
    GPU("rx-6700-xt", "AMD Radeon RX 6700 XT", (9, 0), 132, 12_862_881_792),
    GPU("rx-6800-xt", "AMD Radeon RX 6800 XT", (9, 0), 132, 17_157_849_088),
    GPU("rx-6900-xt", "AMD Radeon RX 6900 XT", (9, 0), 132, 17_157_849_088),
    GPU("rx-7600", "AMD Radeon RX 7600", (9, 0), 132, 8_567_914_496),
    GPU("rx-7600-xt", "AMD Radeon RX 7600 XT", (9, 0), 132, 17_157_849_088),
    GPU("rx-7700-xt", "AMD Radeon RX 7700 XT", (9, 0), 132, 12_862_881_792),
    GPU("rx-7800-xt", "AMD Radeon RX 7800 XT", (9, 0), 132, 17_157_849_088),
    GPU("rx-7900-gre", "AMD Radeon RX 7900 GRE", (9, 0), 132, 17_157_849_088),
    GPU("rx-7900-xt", "AMD Radeon RX 7900 XT", (9, 0), 132, 21_452_816_384),
    GPU("rx-7900-xtx", "AMD Radeon RX 7900 XTX", (9, 0), 132, 25_747_783_680),
    GPU("rx-9060-xt", "AMD Radeon RX 9060 XT", (9, 0), 132, 8_567_914_496),
    GPU("rx-9070", "AMD Radeon RX 9070", (9, 0), 132, 17_093_885_952),
    GPU("rx-9070-xt", "AMD Radeon RX 9070 XT", (9, 0), 132, 17_093_885_952),
    GPU("w6800", "AMD Radeon PRO W6800", (9, 0), 132, 32_190_234_624),
    GPU("w7800", "AMD Radeon PRO W7800", (9, 0), 132, 32_190_234_624),
    GPU("w7900", "AMD Radeon PRO W7900", (9, 0), 132, 48_296_361_984),
    GPU("arc-a750", "Intel Arc A750 Graphics", (9, 0), 132, 8_053_063_680),
    GPU("arc-a770", "Intel Arc A770 Graphics", (9, 0), 132, 8_053_063_680),
    GPU("arc-b570", "Intel Arc B570 Graphics", (9, 0), 132, 9_985_589_248),
    GPU("arc-b580", "Intel Arc B580 Graphics", (9, 0), 132, 12_133_072_896),
    GPU("max-1100", "Intel Data Center GPU Max 1100", (9, 0), 132, 48_318_382_080),
    GPU("max-1550", "Intel Data Center GPU Max 1550", (9, 0), 132, 65_498_251_264),
)

# What a process takes of a GPU before it has a tensor, in bytes: that of gpu.go, as measured on an H200. Handles of
# cuBLAS and cuDNN are not in it.
CONTEXT = 614 << 20

# The L2 cache in MiB, by id: NVIDIA's data sheets and architecture papers; the H200's was read off the device. What
# Inductor and Triton time is timed with a cold cache, so that they allocate a buffer of this size.
L2 = {
    "h200": 60, "h100-80gb": 50, "h100-pcie": 50, "h100-nvl": 50, "b200": 126, "a100-40gb": 40, "a100-80gb": 40,
    "a30": 24, "a10g": 6, "a40": 6, "rtx-a6000": 6, "l4": 48, "l40s": 96, "rtx-6000-ada": 96, "rtx-3090": 6,
    "rtx-3060": 3, "rtx-4060": 24, "rtx-4090": 72, "rtx-5090": 96, "t4": 4, "v100-16gb": 6, "v100-32gb": 6,
}  # fmt: skip

# Of other devices the usual size of their generation, by capability.
_L2_OF: dict[int | tuple[int, int], int] = {
    6: 3,
    7: 4,
    (8, 0): 40,
    (8, 6): 6,
    (8, 7): 4,
    8: 48,
    9: 50,
    10: 126,
    11: 32,
    12: 48,
}


def l2_cache(gpu: GPU) -> int:
    """Return the bytes of a device's L2 cache."""
    return L2.get(gpu.id, _L2_OF.get(gpu.capability, _L2_OF[gpu.capability[0]])) << 20


def find(name: str | GPU) -> GPU:
    """Return the GPU of this id or name, in any case, or of as many of their words as tell it from others: "4090".

    A size such as "24GiB" is the default GPU with that memory.

    Raises
    ------
    ValueError
        If no such GPU is known, or several are meant; the message lists them.
    """
    if isinstance(name, GPU):
        return name
    meant = meant_by(name, ((g.id, g.name) for g in GPUS))
    if len(meant) > 1:
        raise ValueError(f"gpu {name!r} could be {', '.join(meant)}")
    for gpu in GPUS:
        if gpu.id in meant:
            return gpu
    if size := _size(name):
        text = "".join(name.split())
        return GPU(text, text, GPUS[0].capability, GPUS[0].multiprocessors, size)
    raise ValueError(f"no GPU named {name!r}: want a size such as 24GiB, or one that memestimate gpus lists")


def _size(text: str) -> int:
    """Bytes of a size with a unit, "24GiB", "24G" or "24GB" (of 1000^3), as the program reads it; else 0."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgtpe])(i?)(b?)\s*", text.lower())
    if not found:
        return 0
    number, prefix, binary, byte = found.groups()
    base = 1000 if byte and not binary else 1024
    size = float(number) * base ** ("kmgtpe".index(prefix) + 1)
    return int(size) if size < 2 << 40 else 0  # more than any device has: "1180 Ti"


def meant_by(typed: str, names: Iterable[tuple[str, str]]) -> list[str]:
    """Return the GPUs that a name could mean, of pairs of an id and the name that nvidia-smi shows.

    One, where it is an id or a full name, or has words enough of them to tell it from the others.
    """
    pairs = list(names)
    for known, full in pairs:
        if typed.lower() in (known, full.lower()):
            return [known]
    asked = _device_words(typed)
    if all(re.fullmatch(r"[0-9]+gb|[0-9]{1,2}", word) for word in asked):  # a size is none's name
        return []
    found = []
    for known, full in pairs:
        words = [*_device_words(known), *_device_words(full), *FORM_FACTORS.get(known, ())]
        if asked and all(any(_stands(word, of) for of in words) for word in asked):
            found.append(known)
    exact = [known for known in found if _spells_out(asked, known)]
    return exact if len(exact) == 1 else found


def _spells_out(asked: list[str], known: str) -> bool:
    """Whether a name has all words of an id, but for a series: "4090" is the rtx-4090, not the laptop's."""
    words = _device_words(known)
    optional = GPU_SERIES if any(word.isdecimal() for word in words) else ()
    return all(word in asked or word in optional for word in words)


def _device_words(name: str) -> list[str]:
    """Take a GPU's name apart: "RTX4090" is rtx and 4090, "80 GB" is 80gb."""
    words: list[str] = []
    for word in re.findall(r"[^\W_]+", name.lower()):
        if series := re.fullmatch(r"(rtx|gtx|rx)(.+)", word):
            words.append(series[1])
            word = series[2]
        if suffix := re.fullmatch(r"([0-9]{4})(ti|super)", word):  # 2080ti
            words.append(suffix[1])
            word = suffix[2]
        if word == "mobile":
            word = "laptop"
        if re.fullmatch(r"[0-9]+[gib]+", word):
            word = word.rstrip("gib") + "gb"
        if word in ("gb", "g", "gib"):  # of "80 GB"
            if words and words[-1].isdecimal():
                words[-1] += "gb"
            continue
        if word not in GPU_NOISE:
            words.append(word)
    return words


def _stands(typed: str, of: str) -> bool:
    """Whether a word stands for another: "sxm" for sxm4, "80" for 80gb, "6000" for a6000, never "40" for a40."""
    if typed == of:
        return True
    if typed.isdecimal():
        return of == typed + "gb" or (len(typed) > 2 and of.lstrip("abhlrtv") == typed)
    return typed == of.rstrip("0123456789") and len(typed) > 2
