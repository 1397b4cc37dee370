"""Files of own code: which are the user's, what is in the hash of a module, and what is read.

A user's file is one that belongs neither to Python nor to an installed package. The hash of a
module is of the contents of
    - all user's modules whose source runs when it is imported;
    - modules beside the configs or in the working directory that these name in imports within
      functions;
    - what these open or list at import, and what they declare, as in `reads = ["a.csv"]`.
"""

import ast
import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from rarefeat.errors import RarefeatError

PACKAGE = str(Path(__file__).parents[1])
INSTALLED = tuple(
    os.path.join(path, "") for path in sys.path if path.endswith(("site-packages", "dist-packages"))
)
"""Folders of installed packages, as they were before any of the user's code ran."""
CLOCK_TICK_NS = 2 * 10**9
"""A file that was written so recently may change again and keep its size and time."""
READING = ("os.listdir", "os.scandir", "sqlite3.connect")
OPAQUE = (
    *("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.exec", "os.fork"),
    *("os.forkpty", "pty.spawn", "ctypes.dlopen", "socket.connect", "builtins.input"),
)
"""Events after which nobody knows what was read."""
FOLDERS: list[str] = []
"""Folders of the config files of the project in use, the last file's first."""


class Notes:
    """What the user's code in progress has read."""

    def __init__(self) -> None:
        self.opened: set[Path] = set()
        self.opaque: set[str] = set()


class Seal(NamedTuple):
    """A module of the user's, as its files were when it was hashed."""

    signatures: dict[Path, tuple]
    """Of each file in the hash, and of absent files that an import in them would find."""
    hash: str
    declares: bool
    """Whether a module among them declares what it reads."""


NOTED: list[Notes] = []
"""Notes of the room that this process is; none elsewhere."""


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
    if path.startswith(INSTALLED):
        return False
    if path.startswith("/dev/") and not path.startswith("/dev/shm/"):
        return False
    roots = (PACKAGE, sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), "/proc", "/sys")
    works = [os.path.join(folder, "") for folder in folders]
    # A working directory may lie below a prefix, as /usr/local/work does.
    return all(
        any(work.startswith(root) and path.startswith(work) for work in works)
        for root in (os.path.join(root, "") for root in roots)
        if path.startswith(root)
    )


def is_user_module(name: str) -> bool:
    """Return whether an imported module is the user's; the running script is not."""
    module = sys.modules[name]
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    # A few modules of torch say a relative path.
    return os.path.isabs(str(path)) and is_user_file(path) and name != "__main__"


def install_hooks() -> None:
    """Have Python read a user's modules by `read_code`, and call `note`, from now on."""
    if SourceFileLoader.get_code is not read_code:
        SourceFileLoader.get_code = read_code  # type: ignore[method-assign, assignment]
        sys.addaudithook(note)


def read_code(loader: SourceFileLoader, name: str) -> CodeType | None:
    """Read the code of a module; of a user's module from its source, and never from a cache."""
    if not is_user_file(loader.path):
        return super(SourceFileLoader, loader).get_code(name)
    for notes in NOTED:
        notes.opened.add(Path(loader.path))
    return loader.source_to_code(loader.get_data(loader.path), loader.path)


def note(event: str, arguments: tuple) -> None:
    """Note what the user's code opens, lists or starts, an audit hook."""
    if not NOTED:
        return
    name = arguments[0] if arguments else None
    if event == "open":
        _, mode, flags = arguments
        if not ("r" in mode or "+" in mode if mode else flags & os.O_ACCMODE != os.O_WRONLY):
            return
    elif event in OPAQUE:
        # A library of Python or of a package reads nothing by being loaded.
        if event == "ctypes.dlopen" and (name is None or not is_user_file(os.fsdecode(name))):
            return
        if is_users_call():
            NOTED[-1].opaque.add(event)
        return
    elif event not in READING:
        return
    name = "." if name is None else name
    if not isinstance(name, str | bytes | os.PathLike) or not is_users_call():
        return
    path = Path(os.path.abspath(os.fsdecode(name)))
    path = Path(os.path.realpath(path)) if path.is_relative_to("/proc") else path
    if is_user_file(path):
        NOTED[-1].opened.add(path)


def is_users_call() -> bool:
    """Return whether the user's code calls: a file of theirs is on the stack, or another thread.

    What an installed package opens while it is first imported does not count, since it depends on
    earlier imports; nor does Python's own importing, and what stands outside of the room.
    """
    frame = sys._getframe(2)
    if frame.f_code.co_filename.startswith("<frozen importlib"):
        return False
    while frame:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if function == "occupy" and file.startswith(PACKAGE):
            return False
        # Texts that are executed are of no file.
        if not file.startswith("<"):
            if is_user_file(file):
                return True
            if function == "<module>":
                return False
        frame = frame.f_back
    return threading.current_thread() is not threading.main_thread()


def import_module(name: str) -> None:
    """Import a module of the user's; RarefeatError in one line where it fails."""
    folders = search_folders()
    sys.path[:] = [*folders, *(path for path in sys.path if path not in folders)]
    importlib.invalidate_caches()
    try:
        importlib.import_module(name)
    except RarefeatError:
        raise
    except Exception as error:
        line = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise RarefeatError(f"{module_file(name)} cannot be imported: {line}") from error


def forget_modules() -> None:
    """Forget all modules of the user's."""
    for name in [name for name in [*sys.modules] if is_user_module(name)]:
        del sys.modules[name]


def seal(name: str, notes: Notes) -> Seal:
    """Seal a module that was imported as the only one of the user's."""
    modules = [sys.modules[key] for key in [*sys.modules] if is_user_module(key)]
    # Modules that no source loader has read, such as compiled ones, count by their files.
    loaded = {Path(file) for item in modules if (file := getattr(item, "__file__", None))}
    files, absent, declares = list_files(sorted(notes.opened | loaded | {module_file(name)}))
    check_names(files)
    folder = module_file(name).parents[name.count(".")]
    texts = {os.path.relpath(path, folder): contents(path) for path in files}
    items = [text for key, data in sorted(texts.items()) for text in (key.encode(), data)]
    value = hashlib.sha256(b"".join(hashlib.sha256(item).digest() for item in items)).hexdigest()
    return Seal({path: signature(path) for path in (*files, *absent)}, value[:16], declares)


def contents(path: Path) -> bytes:
    """Return the bytes of a file, or the names in a folder."""
    return "\n".join(sorted(os.listdir(path))).encode() if path.is_dir() else path.read_bytes()


def signature(path: Path) -> tuple:
    """Return size and times of a file; with its contents soon after an edit, and of a folder."""
    try:
        about = path.stat()
        is_recent = time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) < CLOCK_TICK_NS
        data = contents(path) if is_recent or path.is_dir() else None
    except OSError:
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, data


def is_unedited(path: Path, before: tuple) -> bool:
    """Return whether a file has the signature of before."""
    now = signature(path)
    if now[:3] != before[:3]:
        return False
    return not now or before[3] is None or before[3] == contents(path)


def find_unseen(notes: Notes, seals: dict[str, Seal]) -> str:
    """Return why own code is refused for what it has read; empty if all is in a hash."""
    module = module_file(next(iter(seals))).name
    if notes.opaque and not any(seal.declares for seal in seals.values()):
        return (
            f"{', '.join(sorted(notes.opaque))}: what another program or library reads is not"
            f' seen; declare it in {module}: reads = ["FILE"], or [] for nothing'
        )
    hashed = {os.path.realpath(path) for seal in seals.values() for path in seal.signatures}
    for path in sorted(notes.opened):
        if path.exists() and os.path.realpath(path) not in hashed:
            remedy = (
                f"import it at the top of {module}"
                if path.suffix == ".py"
                else f'declare it in {module}: reads = ["{path.name}"]'
            )
            return f"uses {path}, which may be edited unseen; {remedy}"
    return ""


def check_names(files: Iterable[Path]) -> None:
    """Raise RarefeatError for a module with the name of one of Python's or of a package."""
    for path in files:
        is_package = path.name == "__init__.py"
        name, folder = (
            (path.parent.name, path.parents[1]) if is_package else (path.stem, path.parent)
        )
        is_taken = name in sys.modules and not is_user_module(name)
        is_taken = (is_taken or name in sys.stdlib_module_names) and path.suffix == ".py"
        if is_taken and str(folder) in search_folders():
            raise RarefeatError(f"{path}: an installed module is called {name}, too; rename it")


def list_files(files: Iterable[Path]) -> tuple[list[Path], list[Path], bool]:
    """List files with those that modules among them import or declare, and which are absent.

    The third value says whether a module declares what it reads.
    """
    queue: list[Path] = []
    absent: list[Path] = []
    declares = False
    for path in files:
        (queue if path.exists() else absent).append(path)
    for path in queue:
        tree = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
        imported: list[Path] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names, roots = [item.name for item in node.names], search_folders()
            elif isinstance(node, ast.ImportFrom):
                roots = [str(path.parents[node.level - 1])] if node.level else search_folders()
                names = [".".join(filter(None, [node.module, item.name])) for item in node.names]
            else:
                continue
            for root in roots:
                imported += [file for name in names for file in module_files(Path(root), name)]
        present = [file for file in imported if file.is_file() and is_user_file(file)]
        absent += [file for file in imported if not file.is_file()]
        declared = declared_files(path, tree)
        declares |= declared is not None
        queue += [
            file for file in dict.fromkeys((*present, *(declared or ()))) if file not in queue
        ]
    return queue, absent, declares


def module_files(folder: Path, name: str) -> Iterator[Path]:
    """List the files that a module, and the packages around it, may have below a folder."""
    for component in name.split("."):
        folder = folder / component
        yield from (folder.with_suffix(".py"), folder / "__init__.py")


def declared_files(path: Path, tree: ast.Module) -> list[Path] | None:
    """List the files and folders that a module declares as `reads`; None if it declares none.

    All must exist.
    """
    files = None
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        value = getattr(node, "value", None)
        if "reads" not in [getattr(target, "id", "") for target in targets] or value is None:
            continue
        names = [getattr(item, "value", None) for item in getattr(value, "elts", [None])]
        if not all(isinstance(name, str) for name in names):
            raise RarefeatError(
                f"{path}: reads: must be a list of file names, got {ast.unparse(value)}"
            )
        files = files or []
        for name in names:
            found = [file for folder in search_folders() if (file := Path(folder, name)).exists()]
            if not found:
                places = " or ".join(search_folders())
                raise RarefeatError(f"{path}: reads: there is no file {name} in {places}")
            files += found
    return files
