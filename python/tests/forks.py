"""A Python that has PyTorch imported already, for tests that start Python: libraries take seconds of each.

A server imports them once, and forks for each command. What is run in Python's place hands its words, folder,
environment and files to the server, passes signals on, and ends as the command does. It becomes Python itself where a
command asks for what is decided before the fork: flags of Python, variables that libraries read when they are imported.
What looks for a GPU when it is imported is left to the commands, and memestimate: its source is where they find it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYTHON = os.environ.get("FORKING_PYTHON", sys.executable)  # what tests start, unless they are of the start itself
MODULES = ("torch", "torch._dynamo", "torch._inductor.compile_fx", "torchvision", "transformers", "accelerate")
READ_ON_IMPORT = ("HF_", "LANG", "LC_", "LD_", "OMP_", "PYTHON", "PYTORCH_", "TORCH", "TRANSFORMERS_", "USE_")
FOLLOWED = (  # by a fork too
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "PYTORCH_NVML_BASED_CUDA_CHECK",  # which lightning sets when it is imported
    "TORCHINDUCTOR_CACHE_DIR",  # which Inductor does
)

_CLIENT = """#!{python} -IS
import array, json, os, signal, socket, sys
words, env = sys.argv[1:], dict(os.environ)
first = words[0] if words else "-"
if (first[0] == "-" and first not in ("-W", "-c", "-m")) or started_with != {{
    k: v for k, v in env.items() if k.startswith({read}) and k not in {followed}
}}:
    os.execv({python!r}, [{python!r}, *words])
fds = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)]
fds = [fd for fd in fds if os.get_inheritable(fd)]
mask = os.umask(0)
asked = dict(words=words, name=sys.argv[0], cwd=os.getcwd(), env=env, fds=fds, mask=mask, group=os.getpgrp())
data = json.dumps(asked).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
server.sendmsg([len(data).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
server.sendall(data)
child = int.from_bytes(server.recv(4), "big")
for number in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, frame: os.kill(child, number))
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Have `PYTHON` name ``bin/python3`` of an environment with a server, here and in processes that are started."""
    global PYTHON
    with tempfile.TemporaryDirectory(prefix="forks-") as folder, socket.socket(socket.AF_UNIX) as listener:
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        started_with = {k: v for k, v in environ.items() if k.startswith(READ_ON_IMPORT) and k not in FOLLOWED}
        path = f"{folder}/server"
        text = _CLIENT.format(python=sys.executable, read=READ_ON_IMPORT, followed=FOLLOWED, path=path)
        client = Path(folder) / "bin" / "python3"
        client.parent.mkdir()
        client.write_text(text.replace("started_with", repr(started_with)))
        client.chmod(0o755)
        listener.bind(path)
        listener.listen(64)
        PYTHON = os.environ["FORKING_PYTHON"] = str(client)
        number = listener.fileno()
        code = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import forks; forks.serve({number})"
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, pass_fds=[number], cwd="/"):
            yield  # leaving it closes the server's standard input, with which it ends


def serve(number: int) -> None:
    """Fork for each command that is asked for; returns in the fork, after the command."""
    listener = socket.socket(fileno=number)
    sys.path.pop()  # where this file is
    loaded = False
    while listener in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        if not loaded:
            for name in MODULES:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
            gc.freeze()
            loaded = True
        if os.fork() == 0:
            listener.close()
            asked, fds = _receive(connection)
            child = os.fork()
            if child == 0:
                connection.close()
                _become(asked, fds)
                return _run(asked["words"])
            _keep(child, connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    length, fds, _, _ = socket.recv_fds(connection, 4, 250)
    data = b""
    while len(data) < int.from_bytes(length, "big"):
        data += connection.recv(1 << 20)
    return json.loads(data), fds


def _keep(child: int, connection: socket.socket) -> None:
    """Tell the client of its child, and end this one with it."""
    for fd in range(3, 256):
        if fd != connection.fileno():
            with contextlib.suppress(OSError):
                os.close(fd)
    ended = os.pidfd_open(child)
    connection.sendall(child.to_bytes(4, "big"))
    if ended not in select.select([connection, ended], [], [])[0]:  # the client was killed
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(status.to_bytes(4, "big", signed=True))
    os._exit(0)


def _become(asked: dict[str, Any], fds: list[int]) -> None:
    """Take what the client had: files, group, folder, environment, words."""
    import fcntl  # which Windows lacks, where nothing forks

    above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 300) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, wanted in zip(above, asked["fds"], strict=True):
        os.dup2(fd, wanted)
        os.close(fd)
    with contextlib.suppress(PermissionError):  # of another session
        os.setpgid(0, asked["group"])
    os.chdir(asked["cwd"])
    os.umask(asked["mask"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    sys.executable = asked["name"]
    sys.orig_argv[:] = [asked["name"], *asked["words"]]
    sys.dont_write_bytecode = bool(asked["env"].get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:1] = [os.path.abspath(part) for part in asked["env"].get("PYTHONPATH", "").split(os.pathsep) if part]


def _run(words: list[str]) -> None:
    """Run what Python would, as the module ``__main__``."""
    if words[0] == "-W":
        sys.warnoptions.append(words[1])
        warnings.simplefilter(words[1])
        words = words[2:]
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if words[0] == "-m":
        sys.argv[:] = ["-m", *words[2:]]
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(words[1])
        return
    if words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        sys.path.insert(0, "")
        code, name = words[1], "<string>"
    else:
        sys.argv[:] = words
        sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        code, name = Path(words[0]).read_text(), words[0]
        main.__file__ = os.path.join(os.getcwd(), words[0])
    exec(compile(code, name, "exec", dont_inherit=True), main.__dict__)
