"""Ask memestimate of every ONNX file of public repositories, and tell what came of it.

    python scripts/corpus.py fetch FOLDER        the files, some 3 GB, never to be committed
    python scripts/corpus.py ask FOLDER ./memestimate --table docs/corpus.md --rows rows.json

``fetch`` clones each repository at its newest commit without its history and takes out what is called ``*.onnx``,
``*.onnx.gz`` or ``*.onnx.xz``. A file with the content of another is taken once; pointers of Git LFS are left out.
``--from PATTERN`` clones from elsewhere, a folder of git directories for example: in it ``{owner}`` and ``{name}``
stand for a repository's.

``ask`` runs memestimate as somebody would who has the file and nothing else: with no flags, then, where sizes are
missing, by the very command that the hint proposes. Each run has ten seconds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

REPOSITORIES = [
    "AdvancedClimateSystems/gonnx",
    "ChristopherBrix/vnncomp2022_benchmarks",
    "ChristopherBrix/vnncomp2023_benchmarks",
    "ChristopherBrix/vnncomp2024_benchmarks",
    "Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB",
    "NVIDIA/TensorRT",
    "NeuralNetworkVerification/Marabou",
    "ONNC/onnc",
    "PINTO0309/onnx2tf",
    "ROCm/AMDMIGraphX",
    "Unity-Technologies/barracuda-release",
    "Xilinx/finn",
    "alrevuelta/cONNXr",
    "dlshriver/dnnv",
    "dotnet/machinelearning-testdata",
    "edbeeching/godot_rl_agents_examples",
    "espressif/esp-dl",
    "eth-sri/eran",
    "fastmachinelearning/qonnx",
    "google-deepmind/mujoco_playground",
    "kendryte/nncase",
    "kraiskil/onnx2c",
    "microsoft/Windows-Machine-Learning",
    "microsoft/onnxjs",
    "microsoft/onnxruntime-extensions",
    "microsoft/onnxruntime-inference-examples",
    "onnx/onnx",
    "onnx/onnx-mlir",
    "onnx/sklearn-onnx",
    "pulp-platform/Deeploy",
    "pykeio/ort",
    "snakers4/silero-vad",
    "sonos/tract",
    "spotify/basic-pitch",
    "stanleybak/nnenum",
    "stanleybak/vnncomp2021",
    "tracel-ai/burn-onnx",
    "triton-inference-server/server",
    "vehicle-lang/vehicle",
    "vespa-engine/vespa",
    "webonnx/wonnx",
    "xboot/libonnx",
    "yalue/onnxruntime_go",
    "zkonduit/ezkl",
]
SECONDS = 10
LARGEST = 64 << 20  # bytes of a file
POINTER = b"version https://git-lfs"
ENDINGS: dict[str, Callable[[bytes], bytes]] = {
    ".onnx": bytes,
    ".onnx.gz": gzip.decompress,
    ".onnx.xz": lzma.decompress,
}


class Answer(NamedTuple):
    """What one command gave: its exit code, or None where it took too long, and what it printed."""

    code: int | None
    out: str
    err: str


def fetch(folder: Path, source: str) -> None:
    """Take the ONNX files of all repositories to FOLDER/OWNER+NAME/."""
    seen: set[str] = set()
    unpacked: set[bytes] = set()  # two archives of one file differ
    for repository in REPOSITORIES:
        owner, name = repository.split("/")
        with TemporaryDirectory() as clone:
            url = source.format(owner=owner, name=name)
            _git(None, "clone", "-q", "--bare", "--depth", "1", "--filter=blob:none", url, clone)
            paths = {blob: path for path, blob in _files(clone) if path.endswith(tuple(ENDINGS)) and blob not in seen}
            seen |= paths.keys()
            _git(clone, "-c", "fetch.negotiationAlgorithm=noop", "fetch", "-q", "origin", *paths, check=False)
            for key in ("promisor", "partialclonefilter"):  # what is still missing is to be passed over
                _git(clone, "config", "--unset-all", f"remote.origin.{key}", check=False)
            count = 0
            for blob, data in _contents(clone, list(paths)):
                if len(data) > LARGEST or data.startswith(POINTER):
                    continue
                ending = max((e for e in ENDINGS if paths[blob].endswith(e)), key=len)
                model = ENDINGS[ending](data)
                digest = hashlib.sha256(model).digest()
                if digest in unpacked or model.startswith(POINTER):
                    continue
                unpacked.add(digest)
                target = folder / f"{owner}+{name}" / (paths[blob].removesuffix(ending).replace("/", "__") + ".onnx")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(model)
                count += 1
        print(f"{repository}: {count}", file=sys.stderr)


def _files(clone: str) -> Iterator[tuple[str, str]]:
    """Yield path and blob of each file of a repository's newest commit."""
    for line in _git(clone, "ls-tree", "-r", "-z", "HEAD").decode().split("\0"):
        if line:
            what, path = line.split("\t", 1)
            yield path, what.split()[2]


def _contents(clone: str, blobs: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the content of each blob that the repository has, by one process."""
    asked = "".join(b + "\n" for b in blobs).encode()
    answer = _git(clone, "cat-file", "--batch", check=False, given=asked)
    at = 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        blob, kind, *size = answer[at:end].decode().split()
        at = end + 1
        if kind == "blob":
            yield blob, answer[at : at + int(size[0])]
            at += int(size[0]) + 1


def _git(folder: str | None, *arguments: str, check: bool = True, given: bytes | None = None) -> bytes:
    place = ["-C", folder] if folder else []
    command = ["git", *place, *arguments]
    p = subprocess.run(command, check=check, input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return p.stdout


def ask(program: str, file: Path) -> dict[str, Any]:
    """Estimate a file, by the hints where it needs them, and list its values' shapes."""
    flags: list[str] = []
    answer = _run([program, str(file), "--format", "json"])
    for _ in range(4):
        more = _hinted(answer, file)
        if answer.code != 2 or not more or more == flags:
            break
        flags = more
        answer = _run([program, str(file), *flags, "--format", "json"])
    row: dict[str, Any] = {"file": f"{file.parent.name}/{file.name}", "flags": flags, "code": answer.code}
    if answer.code not in (0, 1):
        row["error"] = _said(answer).get("error", answer.err).replace(str(file), "FILE")
        return row
    report = json.loads(answer.out)
    row["peak"] = "peak" in report
    row["floats"] = report["parameters"]["count"] > 0
    row["producer"] = report["model"].get("producer", "")
    row["warnings"] = [n["text"] for n in report.get("notes", []) if n["level"] == "warning"]
    row["unmodelled"] = sorted(u["op"] for u in report.get("coverage", {}).get("unmodelled") or [])
    shapes = _run([program, "shapes", str(file), *flags, "--format", "json"])
    row["shapes_code"] = shapes.code
    if shapes.code == 0:
        values = json.loads(shapes.out)["values"]
        row["values"] = len(values)
        row["known"] = sum(_known(v) for v in values.values())
    return row


def _run(command: list[str]) -> Answer:
    try:
        p = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"took over {SECONDS} s")
    return Answer(p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace"))


def _hinted(answer: Answer, file: Path) -> list[str]:
    """Return the flags of the command that a hint proposes."""
    found = re.match(r"memestimate (.*)", _said(answer).get("hint", ""))
    words = shlex.split(found[1]) if found else []
    return [w for w in words if w != str(file)]


def _said(answer: Answer) -> dict[str, Any]:
    """Return what memestimate says in JSON of why there is no answer."""
    try:
        return dict(json.loads(answer.err))
    except json.JSONDecodeError:
        return {}


def _known(value: dict[str, Any]) -> bool:
    """Whether a value's shape is known but for dimensions that somebody may choose, which have a name."""
    shape = value.get("shape")
    return "elem" in value or (shape is not None and None not in shape)


def table(rows: list[dict[str, Any]]) -> str:
    """Write what came of all files as Markdown."""
    read = [r for r in rows if r["code"] in (0, 1)]
    floats = [r for r in read if r["floats"]]
    values, known = sum(r.get("values", 0) for r in read), sum(r.get("known", 0) for r in read)
    peaks = sum(r["peak"] for r in floats)

    def share(part: int, whole: int) -> str:
        return f"{part:,} of {whole:,} ({100 * part / max(whole, 1):.1f} %)"

    lines = [
        "| of | |",
        "|---|---:|",
        f"| repositories | {len({r['file'].split('/')[0] for r in rows})} |",
        f"| files | {len(rows):,} |",
        f"| that exit 70 | {sum(r['code'] == 70 for r in rows)} |",
        f"| that take over {SECONDS} s | {sum(r['code'] is None for r in rows)} |",
        f"| that are read | {share(len(read), len(rows))} |",
        f"| values whose shape is known | {share(known, values)} |",
        f"| files with float parameters for which there is a peak | {share(peaks, len(floats))} |",
        "",
        "| refused because | files |",
        "|---|---:|",
    ]
    reasons = Counter(reason(r["error"]) for r in rows if "error" in r)
    often = sorted((i for i in reasons.items() if i[1] > 1), key=lambda i: (-i[1], i[0]))
    lines += [f"| {why} | {count} |" for why, count in often]
    lines.append(f"| something that no other file has | {len(reasons) - len(often)} |")
    lines += ["", "| read, with float parameters, but without a peak because | files |", "|---|---:|"]
    without = Counter(reason(" ".join(r["warnings"][:1]) or "no reason given") for r in floats if not r["peak"])
    lines += [f"| {why} | {count} |" for why, count in sorted(without.items(), key=lambda i: (-i[1], i[0]))]
    return "\n".join(lines) + "\n"


def reason(message: str) -> str:
    """Return a message without what belongs to one file: names, places, numbers."""
    message = re.sub(r"^.*?FILE: ", "", message)
    message = re.sub(r'"[^"]*"', "...", message)
    return re.sub(r"\b\d[\d,.x]*\b", "N", message).replace("|", "\\|")[:160]


def main() -> int:
    """Fetch, or ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    fetching = verbs.add_parser("fetch")
    fetching.add_argument("folder", type=Path)
    fetching.add_argument("--from", dest="source", default="https://github.com/{owner}/{name}")
    asking = verbs.add_parser("ask")
    asking.add_argument("folder", type=Path)
    asking.add_argument("program")
    asking.add_argument("--table", type=Path, help="the Markdown file that holds the table between two comments")
    asking.add_argument("--rows", type=Path, help="what came of each file, as JSON")
    asking.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.verb == "fetch":
        fetch(given.folder, given.source)
        return 0
    files = sorted(given.folder.glob("*/*.onnx"))
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda f: ask(given.program, f), files))
    if given.rows:
        given.rows.write_text(json.dumps(rows, indent=0))
    made = table(rows)
    if given.table:
        begin, end = "<!-- corpus: scripts/corpus.py writes it -->\n", "<!-- end of corpus -->"
        text = given.table.read_text()
        head, _, rest = text.partition(begin)
        given.table.write_text(head + begin + "\n" + made + end + rest.partition(end)[2])
    else:
        print(made)
    return 70 if any(r["code"] == 70 for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
