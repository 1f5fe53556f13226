"""When a program compiles: what is put in place for Dynamo and Inductor, and what stands aside meanwhile."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch import fx, nn

from ..core.frames import WRAPPERS
from ..core.session import Session
from ..pretend.device import own_makers
from . import bodies, graphs, kernels, machine, older, shortcuts
from .places import Places
from .timing import Timing

_OLDEST = (2, 10)  # of PyTorch, whose compiler is known
_SHORT = (2, 11)  # whose kernels' text is known to be left out without changing memory
_REFAKES = (2, 11)  # from which on `older` has nothing to do
_SETTINGS = {
    "force_disable_caches": True,
    "compile_threads": 1,
    # Whether a template of Triton is faster than cuBLAS or cuDNN is not known without a GPU.
    "max_autotune_gemm_backends": "ATEN",
    "max_autotune_conv_backends": "ATEN",
}
_ASIDE = re.compile(r"_global_forward_|_subclasses\.FakeTensor")  # see Compiler._compiling
_MAKER = re.compile(r"(\.|')(as_)?tensor('\])?$")  # torch.tensor, by whatever name its module has
_IDENTITY = ("ID_MATCH", "BUILTIN_MATCH", "FUNCTION_MATCH", "CLOSURE_MATCH")  # guards on which object it is
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


class Compiler:
    """PyTorch's compiler within a recording.

    Parameters
    ----------
    session
        The recording.
    wanted
        Whether what the program compiles is to be compiled; otherwise it runs eagerly.
    """

    def __init__(self, session: Session, wanted: bool = True) -> None:
        self._session = session
        self._patches = session.patches
        self._places = Places(session)
        self.left_out: set[Any] = set()  # backends for which something was to be compiled and is not
        self._frame = ""  # what Dynamo compiles
        self._graphs: Counter[str] = Counter()  # how many were compiled of each frame and pass
        self._kernels: list[str] = []  # of Triton, that were made so far
        self._ready = False
        self._why = "" if wanted else "asked for by --no-compile"  # why nothing is compiled

    def place(self) -> tuple[int, int] | None:
        """Frame and module of what compiled code runs now; None if none runs."""
        return self._places.here() if self._ready else None

    def begin(self) -> bool:
        """Put everything in place, and say whether the compiler can be used."""
        if not self._ready and not self._why:
            self._why = _missing(self._session.way)
        if self._why:
            self._session.note("eager", f"recorded eagerly, not compiled: {self._why}")
            return False
        if self._ready:
            return True
        self._ready = True
        self._own_folder()
        with self._patches.suspended():
            _load()
        if _version() < _REFAKES:
            older.install(self._patches)
        machine.install(self._session)
        dynamo: Any = importlib.import_module("torch._dynamo")
        self._patches.later(dynamo.reset)  # what was compiled is for the pretended GPU, and what failed stays skipped
        self._patches.later(_forget)
        _forget()
        if _version() == _SHORT:
            bodies.install(self._patches)
            shortcuts.install(self._session)
        timing = Timing(self._session)
        timing.keep(self._patches)
        kernels.install(self._session, timing, self._kernels)
        self._fold()
        self._unguard()
        self._initialize_optimizers()
        graphs.install(self._session)
        self._places.keep(self._patches)
        config: Any = importlib.import_module("torch._inductor.config")
        self._patches.enter(config.patch(_SETTINGS))
        self.watch()
        compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")
        make = compile_fx.fx_codegen_and_compile

        def made(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            self._tell(bool(kwargs.get("is_backward")))
            with self._compiling():
                return make(gm, *args, **kwargs)

        self._patches.set(compile_fx, "fx_codegen_and_compile", made)
        inner = compile_fx._compile_fx_inner

        def compiled(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            try:
                return inner(gm, *args, **kwargs)
            except Exception as error:
                if not kwargs.get("is_backward"):
                    raise  # Dynamo says which frame it is, and `watch` runs it eagerly
                self._failed(error)
                return importlib.import_module("torch._functorch.aot_autograd").make_boxed_func(gm.forward)

        self._patches.set(compile_fx, "_compile_fx_inner", compiled)
        return True

    def _tell(self, backward: bool) -> None:
        """Say what is being compiled, which may take a minute."""
        what = f"{self._frame}, backward" if backward else self._frame
        self._graphs[what] += 1
        self._session.tell(f"compiling {what} ({self._graphs[what]}), after {len(self._kernels)} kernels")

    def _failed(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}".partition("\n\nSet TORCH")[0].replace("\n", " ")
        self._session.note("eager", f"recorded eagerly in part, not compiled: {text[:300]}")

    def _initialize_optimizers(self) -> None:
        """Make the state of an optimizer, which Dynamo does while it traces the first step, as the program would."""
        variables: Any = importlib.import_module("torch._dynamo.variables.optimizer")
        call = variables.OptimizerVariable.call_method

        def called(variable: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            if name != "_init_group":
                return call(variable, tx, name, *args, **kwargs)
            optimizer = variable.value
            init = optimizer._init_group

            def initialized(*args: Any, **kwargs: Any) -> Any:
                with self._session.capture:
                    return init(*args, **kwargs)

            optimizer._init_group = initialized
            try:
                return call(variable, tx, name, *args, **kwargs)
            finally:
                del optimizer._init_group

        self._patches.set(variables.OptimizerVariable, "call_method", called)
        # Counts of steps go to the GPU, where an optimizer has state before its first step, as Adagrad.
        self._captured(variables.OptimizerVariable, "move_step_if_cpu")

    def _unguard(self) -> None:
        """Leave out of what must be as it was what stands aside while Dynamo compiles, or each call compiles anew.

        That is the class of fake tensors, which transformers asks for, the hooks that ``Module.__call__`` reads, and
        the functions that make tensors of numbers.
        """
        guards: Any = importlib.import_module("torch._dynamo.guards")
        make = guards.CheckFunctionManager.__init__

        def made(manager: Any, code: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
            found = graph.guards.inner
            for guard in [guard for guard in found if _stands_aside(guard)]:
                found.remove(guard)
            make(manager, code, graph, *args, **kwargs)

        self._patches.set(guards.CheckFunctionManager, "__init__", made)

    def _fold(self) -> None:
        """Compute constants of a graph, which tracing and Inductor make on the GPU, as the recorder knows values."""
        folding: Any = importlib.import_module("torch._inductor.constant_folding")
        joint: Any = importlib.import_module("torch._inductor.fx_passes.joint_graph")
        uniform = joint.UniformValueConstantFolder
        for kind, name in ((folding.ConstantFolder, "run"), (uniform, "_add_peephole_patterns")):
            self._captured(kind, name)
        tracing: Any = importlib.import_module("torch.fx.experimental.proxy_tensor")
        unset = tracing.unset_fake_temporarily

        @contextmanager
        def captured() -> Iterator[None]:
            with unset(), self._session.capture:
                yield

        self._patches.set(tracing, "unset_fake_temporarily", captured)

    def _captured(self, kind: Any, name: str) -> None:
        """Have a method of the compiler make its tensors on the pretended GPU."""
        method = getattr(kind, name, None)  # not every version has each
        if method is None:
            return

        def captured(*args: Any, **kwargs: Any) -> Any:
            with self._session.capture:
                return method(*args, **kwargs)

        self._patches.set(kind, name, captured)

    def watch(self) -> None:
        """Have the recorder stand aside while Dynamo compiles, and run eagerly what it fails to compile."""
        convert_frame: Any = importlib.import_module("torch._dynamo.convert_frame")
        exc: Any = importlib.import_module("torch._dynamo.exc")
        convert = convert_frame._compile

        def converted(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            if code.co_filename.startswith(_OWN):  # what answers for an operator behind a graph break, and hooks
                return _eagerly(whole=False)
            if not self.begin():
                return _eagerly()
            try:
                self._frame = code.co_qualname if hasattr(code, "co_qualname") else code.co_name  # 3.11
                with self._compiling():
                    return convert(code, *args, **kwargs)
            except (exc.BackendCompilerFailed, exc.InternalTorchDynamoError) as error:
                self._failed(error)
                return _eagerly()

        if not getattr(convert, "_memestimate", False):
            converted._memestimate = True  # type: ignore[attr-defined]
            self._patches.set(convert_frame, "_compile", converted)

    def _own_folder(self) -> None:
        """Let what the compiler writes go into a folder that is gone with the recording."""
        folder = tempfile.TemporaryDirectory(prefix=WRAPPERS)
        before = {name: os.environ.get(name) for name in _FOLDERS}

        def back() -> None:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            folder.cleanup()

        os.environ.update(dict.fromkeys(_FOLDERS, folder.name))
        self._patches.later(back)

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """What the recorder has in place for programs stands aside, and so does the collector of cycles.

        The compiler's many objects live until it is done; Dynamo collects then, with a GPU too.
        """
        phases = self._session.phases
        if phases.compiling:
            yield
            return
        hooks = torch.nn.modules.module
        held = [(found, dict(found)) for found in (hooks._global_forward_pre_hooks, hooks._global_forward_hooks)]
        subclasses: Any = torch._subclasses
        kind = subclasses.FakeTensor
        phases.compiling += 1
        collects = gc.isenabled()
        gc.disable()
        for found, _ in held:
            found.clear()
        subclasses.FakeTensor = subclasses.fake_tensor.FakeTensor
        try:
            with own_makers():
                _know_makers()
                yield
        finally:
            subclasses.FakeTensor = kind
            for found, before in held:
                found.update(before)
            phases.compiling -= 1
            if collects:
                gc.enable()


def _know_makers() -> None:
    """Have Dynamo look its functions up anew, where it did so while others stood for those that make tensors."""
    rules: Any = torch._dynamo.trace_rules
    if torch.tensor not in rules.get_torch_obj_rule_map():
        rules.clear_lru_cache()


def install(session: Session) -> None:
    """Wait for the program to ask for something to be compiled."""
    compiler = session.part(Compiler)
    session.phases.compiled_place = compiler.place
    compile_, compile_module = torch.compile, nn.Module.compile

    def compiled(*args: Any, **kwargs: Any) -> Any:
        if not compiler.begin():
            compiler.left_out.add(kwargs.get("backend", "inductor"))
            model = args[0] if args else kwargs.get("model")
            return (lambda function: function) if model is None else model
        return compile_(*args, **kwargs)

    def module_compiled(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if not compiler.begin():
            compiler.left_out.add(kwargs.get("backend", "inductor"))
        else:
            compile_module(module, *args, **kwargs)

    session.patches.set(torch, "compile", compiled)
    session.patches.set(nn.Module, "compile", module_compiled)
    modules: Any = nn.modules.module
    tables = [getattr(modules, f"_global_{of}_hooks") for of in ("forward_pre", "forward", "backward_pre", "backward")]

    def any_hook() -> bool:
        """Whether the program has hooks of all modules, of which a compiled module warns."""
        return any(hook not in session.phases.hooks for table in tables for hook in table.values())

    session.patches.set(modules, "_has_any_global_hook", any_hook)
    if "torch._dynamo.convert_frame" in sys.modules:  # something may be compiled that was made before
        compiler.watch()


def _stands_aside(guard: Any) -> bool:
    """Whether a guard is on what is another thing while Dynamo compiles."""
    name = str(guard.name)
    return bool(_ASIDE.search(name) or (_MAKER.search(name) and guard.create_fn_name() in _IDENTITY))


def _missing(way: str) -> str:
    """What the compiler needs and is not there; "" if nothing."""
    if way == "real-cpu":
        return "with --real the CPU computes each operator"
    if way == "fake-cpu":
        return "this build of PyTorch cannot be told that it has a GPU"
    if _version() < _OLDEST:
        return f"PyTorch {torch.__version__}'s compiler is not known, {'.'.join(map(str, _OLDEST))} and later are"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    return ""


def _version() -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _load() -> None:
    """Import the compiler and build its tables of PyTorch's functions while those are PyTorch's own."""
    for name in ("_dynamo", "_inductor.compile_fx", "_inductor.graph", "_inductor.select_algorithm"):
        importlib.import_module(f"torch.{name}")
    rules: Any = importlib.import_module("torch._dynamo.trace_rules")
    rules.get_torch_obj_rule_map()
    rules.get_tensor_method()
    importlib.import_module("torch._dynamo.variables.torch").TorchInGraphFunctionVariable._get_handlers()


def _forget() -> None:
    """Let PyTorch ask anew what it remembers of the machine."""
    for name in ("torch.utils._triton", "torch._inductor.utils", "torch._inductor.runtime.hints"):
        for answer in vars(importlib.import_module(name)).values():
            if hasattr(answer, "cache_clear") and getattr(answer, "__module__", "") == name:
                answer.cache_clear()


def _eagerly(whole: bool = True) -> Any:
    """What Dynamo gets for a frame that runs as it is; `whole`: with all that it calls."""
    types: Any = importlib.import_module("torch._dynamo.types")
    action = types.FrameAction
    called = action.SKIP if whole else action.DEFAULT
    return types.ConvertFrameReturn(frame_exec_strategy=types.FrameExecStrategy(action.SKIP, called))
