"""Compiled steps: PyTorch's own compiler on the pretended GPU."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import as_tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

import memestimate
from memestimate.api import program as answers
from recording import Recording

pytest.importorskip("triton")
if torch.__version__ < (2, 10):
    pytest.skip("recorded eagerly with this version of PyTorch", allow_module_level=True)


class Block(nn.Module):
    """A layer norm and two linears with what Inductor fuses between them."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def recorded(
    path: Path, make: object, steps: int = 2, compile: bool = True, blocks: int = 1
) -> tuple[Recording, list[tuple[str, str]]]:
    """A training step of what `make` compiles of some blocks."""
    torch._dynamo.reset()
    with memestimate.record(path, compile=compile) as recorder:
        model = nn.Sequential(*(Block() for _ in range(blocks))).cuda()
        run = make(model)  # type: ignore[operator]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(256, 64, device="cuda")
        for _ in range(steps):
            run(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return Recording(path), recorder.notes


def kernels(recording: Recording) -> list[str]:
    return [call[0] for call in recording.calls() if call[0].startswith("triton::")]


@pytest.mark.filterwarnings("error:.*global hooks on modules")  # those of the recorder are none of the program's
def test_a_compiled_model_is_recorded_by_the_buffers_of_its_kernels(tmp_path: Path) -> None:
    torch._dynamo.reset()  # sets the first of these itself
    cache = {name: os.environ.get(name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    found, notes = recorded(tmp_path / "a.mrec", torch.compile, blocks=2)
    assert cache == {name: os.environ.get(name) for name in cache}
    assert any("layer_norm" in name for name in kernels(found))
    assert "native_layer_norm" not in {call[0] for call in found.calls()}
    assert not [text for code, text in notes if code == "eager"]
    # Both passes of the two blocks: GELU and the norm run as kernels, the products as cuBLAS's.
    assert len([1 for call in found.calls() if call[0] in ("mm", "addmm")]) == 2 * (4 + 8)
    phases = [name for name, _, _ in found.phases()]
    assert phases.count("forward") == 2
    assert phases.count("backward") == 2
    # What a kernel takes belongs to a module, as in the eager step.
    names = {name for _, name, _ in found.tables["module"]}
    assert {"0.norm", "1.up"} <= names
    assert not any("_orig_mod" in name for name in names)

    eager, notes = recorded(tmp_path / "b.mrec", torch.compile, compile=False, blocks=2)
    assert [text for code, text in notes if code == "eager"] == [
        "recorded eagerly, not compiled: asked for by --no-compile"
    ]
    assert not kernels(eager)
    # Of the second step, in which nothing is timed any more: GELU and the norm are computed again.
    steady = [[peak for name, _, peak in run.phases() if name == "backward"][-1] for run in (found, eager)]
    assert steady[0] < steady[1]
    # Parameters and their gradients are those of the eager step.
    assert {tuple(e[1:]) for e in found.of("is")} == {tuple(e[1:]) for e in eager.of("is")}


def test_what_inductor_decides_by_timing_is_decided_by_a_rule(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        table = nn.Parameter(torch.zeros(5001, 64, device="cuda", dtype=torch.bfloat16))
        x = torch.zeros(8192, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

        @torch.compile
        def loss(x: torch.Tensor) -> torch.Tensor:
            scores = F.dropout(x, 0.5) @ table.t()
            return F.cross_entropy(scores, scores.new_zeros(8192, dtype=torch.int64))

        loss(x).backward()
    assert not [text for code, text in recorder.notes if code == "eager"]
    assert [text for code, text in recorder.notes if code == "padding"]
    found = Recording(tmp_path / "a.mrec")
    metas = found.tables["meta"]
    sizes = [metas[int(value.partition(":")[2])][1] for call in found.calls("mm") for value in call[2]]
    assert any(5008 in size for size in sizes), "5001 is padded to a multiple of eight"


@pytest.mark.parametrize(
    ("dtype", "sizes", "turned", "made", "bias", "padded"),
    [
        ("bfloat16", (32768, 256, 196), (False, True), (True, False), True, False),  # 0.031 and 0.033 ms
        ("bfloat16", (256, 32768, 196), (True, False), (True, True), False, True),  # 0.029 and 0.026
        ("bfloat16", (196, 32768, 256), (True, False), (True, True), False, False),  # 0.029 and 0.064
        ("bfloat16", (5336, 12941, 1211), (False, True), (True, False), True, True),  # 1.485 and 0.351
        ("bfloat16", (25296, 1945, 1384), (True, False), (True, False), True, False),  # 0.211 and 0.602
        ("bfloat16", (240, 356, 1434), (False, True), (False, False), True, False),  # 0.010 and 0.025
        ("float32", (2728, 10109, 3600), (True, True), (False, True), False, False),  # 4.365 and 4.960
        ("tf32", (13992, 414, 556), (False, False), (True, False), True, True),  # 0.102 and 0.049
        ("tf32", (10275, 1452, 7468), (False, True), (False, False), False, False),  # 0.711 and 0.761
    ],
)
def test_products_are_padded_where_an_h200_was_faster(
    dtype: str,
    sizes: tuple[int, int, int],
    turned: tuple[bool, bool],
    made: tuple[bool, bool],
    bias: bool,
    padded: bool,
) -> None:
    from torch._inductor.fx_passes import pad_mm

    from memestimate.compiled.timing import _times

    m, k, n = sizes
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    shapes = [shape[::-1] if t else shape for shape, t in zip(((m, k), (k, n)), turned, strict=True)]
    a, b = (torch.empty(shape, dtype=kind, device="meta") for shape in shapes)
    a, b = a.t() if turned[0] else a, b.t() if turned[1] else b
    planned = {"mat1": made[0] and not turned[0], "mat2": made[1] and not turned[1]}
    pad = SimpleNamespace(
        get_alignment_size=pad_mm.get_alignment_size,
        get_padded_length=pad_mm.get_padded_length,
        should_exclude_padding_time=lambda match, name: planned[name],
    )
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, dtype == "tf32"
    try:
        times = _times(pad, None, a, b, bias)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert (times["orig_bench_fn"] > 1.1 * times["pad_bench_fn"]) == padded


def test_tensors_of_numbers_are_made_within_compiled_code(tmp_path: Path) -> None:
    """Masks are filled with them; tracing computes them on the GPU, and the recorder's own functions are not seen."""

    def masked(x: torch.Tensor) -> torch.Tensor:
        least = torch.tensor(-1.0, device="cuda")
        one = as_tensor([1.0], device="cuda") + torch.tensor([], device="cuda").sum()  # by a name of its own
        return torch.where(x > 0, x, least) * one + x[:, [0, 2]].sum()

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        weight = nn.Parameter(torch.ones(64, 64, device="cuda"))
        run = torch.compile(masked, fullgraph=True)
        for _ in range(3):
            run(weight).sum().backward()
        makers = (torch.tensor, torch.as_tensor)
        compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert [text for kind, text in recorder.notes if kind == "eager"] == []
    assert compiled == 1  # what stands aside while it compiles is guarded by nothing
    assert "where" not in {call[0] for call in Recording(tmp_path / "a.mrec").calls()}
    assert all(hasattr(make, "__wrapped__") for make in makers)  # the recorder's are back once the compiler is done


def test_graph_breaks_inference_and_blocks(tmp_path: Path) -> None:
    torch._dynamo.reset()
    told: list[str] = []
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        recorder.tell = told.append
        model = nn.Sequential(Block(), Block()).cuda()
        for block in model:
            block.compile()
        x = torch.randn(32, 64, device="cuda")
        model(x).sum().backward()
        assert model[0].up.weight.grad is not None

        @torch.compile
        def function(x: torch.Tensor) -> torch.Tensor:
            y = model[0](x)
            torch._dynamo.graph_break()
            return (y.sin() + 1).sum()

        with torch.no_grad():
            function(x)
        for n in (16, 24):  # the third size is a symbol
            function(torch.randn(n, 64, device="cuda"))
    assert not [text for code, text in recorder.notes if code == "eager"]
    found = Recording(tmp_path / "a.mrec")
    assert any("sin" in name for name in kernels(found))
    assert told[0] == "compiling Block.forward (1), after 0 kernels"
    assert any(text.startswith("compiling Block.forward, backward (1), after ") for text in told)
    assert {"0.up", "1.up"} <= {name for _, name, _ in found.tables["module"]}


@pytest.mark.parametrize("how", ["compiled", "wrapped", "sharded"])
def test_blocks_that_are_compiled_once_have_their_own_places(how: str, tmp_path: Path) -> None:
    """Three equal blocks: Dynamo compiles the first, and calls that for the others."""
    torch._dynamo.reset()
    told: list[str] = []
    with memestimate.record(tmp_path / "a.mrec", world_size=2 if how == "sharded" else 1) as recorder:
        recorder.tell = told.append
        model = nn.Sequential(Block(), Block(), Block()).cuda()
        for i, block in enumerate(model):
            if how == "wrapped":
                model[i] = torch.compile(block)  # type: ignore[assignment]
            else:
                block.compile()
        if how == "sharded":
            torch.distributed.init_process_group("nccl")
            for block in model:
                fully_shard(block)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(256, 64, device="cuda", requires_grad=True)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        if how == "sharded":
            torch.distributed.destroy_process_group()
    assert len(told) == 2, "one forward and one backward"
    found = Recording(tmp_path / "a.mrec")
    modules = found.tables["module"]
    places: dict[str, list[str]] = {}
    for name, _, _, _, module in found.calls():
        if name.startswith("triton::") or name in ("mm", "addmm"):
            assert module >= 0
            full = modules[module][1]
            places.setdefault(full.partition(".")[0], []).append(name + full[1:])
            parent = modules[module][0]
            assert parent < 0 or modules[parent][1].partition(".")[0] in ("", full[0]), "within its own block"
    assert set(places) == {"0", "1", "2"}
    assert len(places["0"]) > 8
    assert sorted(places["0"]) == sorted(places["1"]) == sorted(places["2"])


def test_a_step_that_asks_for_the_class_of_fake_tensors_is_compiled_once(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        fake = isinstance(x, torch._subclasses.FakeTensor)  # as transformers does in each forward pass
        return x.cos() if fake else x.sin()

    torch._dynamo.reset()
    told: list[str] = []
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        recorder.tell = told.append
        run = torch.compile(function)
        for _ in range(2):
            run(torch.zeros(8, device="cuda"))
    assert [text.rpartition(".")[2] for text in told] == ["function (1), after 0 kernels"]
    assert len(kernels(Recording(tmp_path / "a.mrec"))) == 2


def test_a_backward_pass_that_is_not_compiled_runs_eagerly(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.graph import GraphLowering

    lower = GraphLowering.run

    def failing(graph: GraphLowering, *args: object) -> object:
        if graph.is_backward:
            raise RuntimeError("nothing lowers this")
        return lower(graph, *args)

    monkeypatch.setattr(GraphLowering, "run", failing)
    found, notes = recorded(tmp_path / "a.mrec", torch.compile, steps=1)
    (text,) = [text for code, text in notes if code == "eager"]
    assert text.startswith("recorded eagerly in part, not compiled: ")
    assert "nothing lowers this" in text
    assert kernels(found), "the forward pass is compiled"
    assert len([1 for call in found.calls() if call[0] in ("mm", "addmm")]) == 2 + 4
    assert {str(e[-1]) for e in found.of("is") if e[1] == "gradient"} >= {"0.up.weight", "0.down.bias"}

    # The answer begins with it, and calls nothing a bound: above all not what is below the eager step's.
    monkeypatch.setenv("COLUMNS", "240")  # a line each
    said = answers.run([str(tmp_path / "a.mrec"), "--full"]).stdout.splitlines()
    assert said[1].startswith("not the compiled program: recorded eagerly in part, not compiled: ")
    assert said[2].endswith("safe unless compiled code takes more")
    assert not [line for line in said if line.startswith("at most")]
    recorded(tmp_path / "b.mrec", torch.compile, steps=1, compile=False)
    most = [answers.ask([str(tmp_path / name)])["peak"]["upper_bound_bytes"] for name in ("a.mrec", "b.mrec")]
    assert most[0] >= most[1]


@pytest.mark.skipif(torch.__version__ >= (2, 12), reason="no shortcut is known of this version")
def test_shortcuts_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grown(model: nn.Module) -> object:
        run = torch.compile(model, dynamic=None)
        sizes = iter((256, 192, 128))  # the second is a symbol
        return lambda x: run(x[: next(sizes)])

    found = []
    for name in ("a.mrec", "b.mrec"):
        recording, notes = recorded(tmp_path / name, grown, steps=3)
        assert not [text for code, text in notes if code == "eager"]
        found.append((recording.events, recording.tables["op"], recording.tables["meta"]))
        for part in ("shortcuts", "bodies"):
            monkeypatch.setattr(f"memestimate.compiled.compiler.{part}.install", lambda session: None)
    assert found[0] == found[1]


def test_what_answers_for_an_operator_is_not_compiled(tmp_path: Path) -> None:
    torch._dynamo.reset()
    told: list[str] = []
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        recorder.tell = told.append
        model = nn.LSTM(16, 32).cuda()  # Dynamo leaves it alone, and watches what it calls
        run = torch.compile(lambda x: model(x)[0].sum())
        run(torch.zeros(8, 4, 16, device="cuda", requires_grad=True)).backward()
    assert not [text for code, text in recorder.notes if code == "eager"]
    assert not told


def test_the_process_compiles_for_its_own_device_afterwards(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2 + 1

    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec"):
        torch.compile(function)(torch.zeros(8, device="cuda"))
    assert any("sin" in name for name in kernels(Recording(tmp_path / "a.mrec")))
    x = torch.arange(8.0)
    quickly = {"cpp.vec_isa_ok": False, "cpp_cache_precompile_headers": False}  # not for the fastest instructions
    assert torch.allclose(torch.compile(function, fullgraph=True, options=quickly)(x), function(x))


def test_a_checkpoint_within_compiled_code_draws_again(tmp_path: Path) -> None:
    class Checkpointed(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def inner(x: torch.Tensor) -> torch.Tensor:
                return F.dropout(Block.forward(self, x), 0.1)

            return checkpoint(inner, x, use_reentrant=False)  # type: ignore[no-any-return]

    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        model = Checkpointed().cuda()
        run = torch.compile(model, fullgraph=True)  # whose hooks run before the frame that is compiled
        run(torch.randn(256, 64, device="cuda")).sum().backward()
    assert not [text for code, text in recorder.notes if code == "eager"]
    found = Recording(tmp_path / "a.mrec")
    assert kernels(found)
    # Two products in forward, four in backward, and one that backward computes again.
    assert len([1 for call in found.calls() if call[0] in ("mm", "addmm")]) == 2 + 4 + 1


def test_cuda_graphs_warm_up_are_recorded_and_replayed_in_their_pool(tmp_path: Path) -> None:
    found, notes = recorded(tmp_path / "a.mrec", lambda model: torch.compile(model, mode="reduce-overhead"), steps=3)
    assert not [text for code, text in notes if code == "eager"]
    assert len(list(found.of("pool"))) == 1
    assert sum(1 for _ in found.of("empty_cache")) == 3, "of the empty graph, and of the one of each pass"
    peaks = {name: [peak for phase, _, peak in found.phases() if phase == name] for name in ("forward", "backward")}
    # The first step warms up, the second is recorded; of the third nothing is counted that the pool has already.
    assert peaks["backward"][1] > peaks["backward"][2]
    launched = [0]
    for event in found.events:
        if event[0] == "step":
            launched.append(0)
        launched[-1] += event[0] == "call" and found.tables["op"][event[1]][0].startswith("triton::")
    assert launched[0] == launched[1] > launched[2] == 0


def test_a_compiled_optimizer_that_has_state_before_its_first_step(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        model = nn.Linear(64, 64).cuda()
        optimizer = torch.optim.Adagrad(model.parameters(), foreach=True)  # counts its steps on the host
        step = torch.compile(lambda: optimizer.step())
        for _ in range(2):
            model(torch.randn(256, 64, device="cuda")).sum().backward()
            step()
        assert all(state["step"].is_cuda for state in optimizer.state.values())
    assert not [text for code, text in recorder.notes if code == "eager"]
    assert kernels(Recording(tmp_path / "a.mrec"))


@pytest.mark.parametrize("optimize_mem", [True, False])
def test_timed_launches_copy_what_fits_before_the_first_of_them(optimize_mem: bool, tmp_path: Path) -> None:
    """Of two configurations the second has room below the peak, which the first one's buffer for the cache made."""
    from memestimate.compiled.kernels import Kernel
    from memestimate.compiled.timing import Timing

    function = SimpleNamespace(arg_names=["in_out_ptr0", "xnumel"])
    kind = SimpleNamespace(name="POINTWISE")
    tuner = SimpleNamespace(
        configs=[1, 2],
        mutated_arg_names=["in_out_ptr0"],
        fn=function,
        optimize_mem=optimize_mem,
        heuristic_type=kind,
    )
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        x = torch.empty(1 << 20, device="cuda")
        kernel = Kernel("written_in_place", "", tuner, recorder, Timing(recorder), set())
        for _ in range(2):
            kernel.run(x, x.numel())
    made = [rest[-1] for rest in Recording(tmp_path / "a.mrec").of("alloc")]
    copy, buffer = made[0], max(made)
    timed = [buffer] if optimize_mem else [copy, buffer, copy]
    assert made == [copy, *timed, copy, buffer, copy]


def test_a_compiled_optimizer(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        model = nn.Linear(64, 64).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        step = torch.compile(lambda: optimizer.step())
        model(torch.randn(256, 64, device="cuda")).sum().backward()
        step()
    assert not [text for code, text in recorder.notes if code == "eager"]
    found = Recording(tmp_path / "a.mrec")
    assert "triton::triton_for_fused_0" in kernels(found), "the optimizer's lists are one kernel"
    assert {"exp_avg weight", "exp_avg_sq weight"} <= {str(e[-1]) for e in found.of("is")}
    phase = ""
    for event in found.events:
        phase = event[1] if event[0] == "phase" else phase
        if event[0] == "call" and found.tables["op"][event[1]][0].startswith("triton::triton_for"):
            assert phase == "optimizer"


def test_max_autotune_holds_what_its_trials_hold(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec") as recorder, torch.no_grad():
        run = torch.compile(nn.Linear(64, 32, bias=False).cuda(), mode="max-autotune-no-cudagraphs")
        run(torch.randn(256, 64, device="cuda"))
    assert [code for code, _ in recorder.notes if code in ("autotune", "eager")] == ["autotune"]
    found = Recording(tmp_path / "a.mrec")
    # The product is tried twice, without and with the buffer that empties the cache, and then runs.
    assert len(found.calls("mm")) == 3
    made = [rest[-1] for rest in found.of("alloc")]
    trial = [4 * 256 * 64, 4 * 64 * 32, 4 * 256 * 32]
    assert any(made[i : i + 3] == trial for i in range(len(made))), "operands and a result of their own"


def test_a_kernel_is_timed_once_though_two_graphs_have_it(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with memestimate.record(tmp_path / "a.mrec"), torch.no_grad():
        for _ in range(2):
            torch.compile(lambda x: x.sin() * 2 + 1)(torch.zeros(4096, 512, device="cuda"))
    calls = [call[0] for call in Recording(tmp_path / "a.mrec").calls()]
    launches = [i for i, name in enumerate(calls) if name.startswith("triton::")]
    assert len(launches) == 2
    assert "inductor::cold_cache" in calls[: launches[0]]
    assert "inductor::cold_cache" not in calls[launches[0] :]


def test_a_reduction_that_needs_many_registers_is_timed(tmp_path: Path) -> None:
    """Of one configuration a smaller one is made, where rows are many and each thread loads more than 32 numbers."""

    def normed(rows: int) -> int:
        torch._dynamo.reset()
        with memestimate.record(tmp_path / "a.mrec", gpu="h200"), torch.no_grad():
            parts = [torch.zeros(rows, 2048, device="cuda") for _ in range(6)]
            torch.compile(lambda *parts: F.layer_norm(sum(parts), (2048,)))(*parts)
        names = [call[0] for call in Recording(tmp_path / "a.mrec").calls()]
        assert any(name.startswith("triton::triton_red") for name in names)
        return names.count("inductor::cold_cache")

    assert normed(8192) > 0
    assert normed(64) == 0
