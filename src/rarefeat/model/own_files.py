"""Files of own code: which are the user's, what is in the hash of a module, and what is read.

A user's file is one that belongs neither to Python nor to an installed package. The hash of a
module is of the contents of all user's files that are imported, opened or listed when it is
imported, and of those that they declare, as in `reads = ["a.csv"]`. What is read later is noted.
"""

import functools
import hashlib
import importlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rarefeat.errors import RarefeatError

PACKAGE = str(Path(__file__).parents[1])
INSTALLED = tuple(
    os.path.join(path, "") for path in sys.path if path.endswith(("site-packages", "dist-packages"))
)
"""Folders of installed packages, as they were before any of the user's code ran."""
OPAQUE = (
    *("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.exec", "os.fork"),
    *("os.forkpty", "pty.spawn", "ctypes.dlopen", "socket.connect", "builtins.input"),
)
"""Events after which nobody knows what was read."""
FOLDERS: list[str] = []
"""Folders of the config files of the project in use, the last file's first."""


class Seal(NamedTuple):
    """A module of the user's, as its files were when it was hashed."""

    digests: dict[Path, str]
    """Of each file in the hash."""
    folders: dict[Path, str]
    """Digests of folders in which an import would find another file."""
    hash: str
    declares: bool
    """Whether a module among them declares what it reads."""


NOTED: list[set[Path | str]] = []
"""Files that own code has read, and opaque events, in the room that this process is."""


def search_folders() -> list[str]:
    """List where a user's module is looked for: beside the configs, then the working directory."""
    return [*dict.fromkeys(os.path.abspath(folder) for folder in (*FOLDERS, ""))]


def module_file(name: str) -> Path:
    """Return the file of a module of the user's, the first that is found."""
    files = [Path(folder, *name.split(".")).with_suffix(".py") for folder in search_folders()]
    return next((path for path in files if path.is_file()), files[-1])


def is_user_file(path: str | Path) -> bool:
    """Return whether a file belongs neither to Python, nor to an installed package, nor to us."""
    return belongs_to_user(os.path.abspath(path), tuple(search_folders()))


@functools.cache
def belongs_to_user(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a file is the user's, whose modules are in some folders."""
    roots = (PACKAGE, sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), "/proc", "/sys")
    works = [os.path.join(folder, "") for folder in folders]
    is_device = path.startswith("/dev/") and not path.startswith("/dev/shm/")
    # A working directory may lie below a prefix, as /usr/local/work does.
    return not (os.path.join(path, "").startswith(INSTALLED) or is_device) and all(
        any(work.startswith(root) and path.startswith(work) for work in works)
        for root in (os.path.join(root, "") for root in roots)
        if path.startswith(root)
    )


def user_modules() -> list[str]:
    """List the imported modules that are the user's; the running script is not."""
    names = []
    for name, module in [*sys.modules.items()]:
        # The paths of a namespace look for its parent, which may be forgotten.
        paths = getattr(module, "__path__", ())
        path = getattr(module, "__file__", None) or next(iter(getattr(paths, "_path", paths)), "")
        # A few modules of torch say a relative path.
        if os.path.isabs(str(path)) and is_user_file(path) and name != "__main__":
            names.append(name)
    return names


@functools.cache
def install_hook() -> None:
    """Have Python call `note` from now on."""
    sys.addaudithook(note)


def note(event: str, arguments: tuple) -> None:
    """Note what the user's code opens, lists or starts, an audit hook."""
    if not NOTED or event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect", *OPAQUE):
        return
    name = arguments[0] if arguments else None
    if event == "open":
        _, mode, flags = arguments
        if not ("r" in mode or "+" in mode if mode else flags & os.O_ACCMODE != os.O_WRONLY):
            return
    elif event == "ctypes.dlopen" and (name is None or not is_user_file(os.fsdecode(name))):
        return  # a library of Python or of a package reads nothing by being loaded
    if not is_users_call(event in ("os.listdir", "os.scandir")):
        return
    if event in OPAQUE:
        NOTED[-1].add(event)
    elif isinstance(name := "." if name is None else name, str | bytes | os.PathLike):
        path = os.path.abspath(os.fsdecode(name))
        path = os.path.realpath(path) if path.startswith("/proc/") else path
        if is_user_file(path):
            NOTED[-1].add(Path(path))


def is_users_call(is_listing: bool) -> bool:
    """Return whether the user's code calls: a file of theirs is on the stack, or another thread.

    What an installed package opens while it is first imported does not count, since it depends on
    earlier imports; nor that importing lists folders; nor what stands outside of the room.
    """
    frame = sys._getframe(2)
    while frame:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if function == "occupy" and file.startswith(PACKAGE):
            return False
        if is_listing and file.startswith("<frozen importlib"):
            return False
        # Python's own importing, and texts that are executed, are of no file.
        if not file.startswith("<"):
            if is_user_file(file):
                return True
            if function == "<module>":
                return False
        frame = frame.f_back
    return threading.current_thread() is not threading.main_thread()


def one_line(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def import_module(name: str) -> None:
    """Import a module of the user's; RarefeatError in one line where it fails."""
    folders = search_folders()
    sys.path[:] = [*folders, *(path for path in sys.path if path not in folders)]
    importlib.invalidate_caches()
    path = module_file(name)
    try:
        module = importlib.import_module(name)
    except RarefeatError:
        raise
    except Exception as error:
        raise RarefeatError(f"{path} cannot be imported: {one_line(error)}") from error
    if module.__spec__.origin != str(path) or name in sys.stdlib_module_names:
        raise RarefeatError(f"{path}: another module is called {name}, too; rename it")


def make_seal(name: str) -> Seal:
    """Seal a module that was imported as the only one of the user's."""
    modules = [sys.modules[key] for key in user_modules()]
    files = {Path(file) for item in modules if (file := getattr(item, "__file__", ""))}
    files |= NOTED[-1] - set(OPAQUE)
    declared = [item for item in modules if hasattr(item, "reads")]
    for module in declared:
        for entry in module.reads:
            found = [path for folder in search_folders() if (path := Path(folder, entry)).exists()]
            if not found:
                line = f"reads: there is no file {entry} in {' or '.join(search_folders())}"
                raise RarefeatError(f"{module.__file__}: {line}")
            files.update(found)
    digests = {path: digest(path) for path in sorted(files) if path.exists()}
    root = module_file(name).parents[name.count(".")]
    text = repr(sorted((os.path.relpath(path, root), value) for path, value in digests.items()))
    folders = {path.parent for path in files} | set(map(Path, search_folders()))
    watched = {folder: digest(folder) for folder in folders}
    return Seal(digests, watched, hashlib.sha256(text.encode()).hexdigest()[:16], bool(declared))


def is_current(digests: Mapping[Path, str]) -> bool:
    """Return whether no file was edited."""
    return all(digest(path) == before for path, before in digests.items())


def digest(path: Path) -> str:
    """Return the hash of a file, or of the names in a folder; empty if there is none."""
    try:
        is_file = path.is_file()
        text = path.read_bytes() if is_file else "\n".join(sorted(os.listdir(path))).encode()
        return hashlib.sha256(text).hexdigest()
    except OSError:
        return ""


def find_unseen(noted: set[Path | str], seals: Mapping[str, Seal]) -> str:
    """Return why own code is refused for what it has read; empty if all is in a hash."""
    module, opaque = module_file(next(iter(seals))).name, noted & set(OPAQUE)
    if opaque and not any(seal.declares for seal in seals.values()):
        what = ", ".join(sorted(opaque))
        return f'{what}: what else it reads is not seen; declare it in {module}: reads = ["FILE"]'
    hashed = {os.path.realpath(path) for seal in seals.values() for path in seal.digests}
    for path in sorted(noted - opaque):
        if path.exists() and os.path.realpath(path) not in hashed:
            remedy = f'declare it in {module}: reads = ["{path.name}"]'
            if path.suffix == ".py":
                remedy = f"import it at the top of {module}"
            return f"uses {path}, which may be edited unseen; {remedy}"
    return ""
