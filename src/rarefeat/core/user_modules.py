"""Import and hash a user's own code, by whole files below the working directory.

The hash of a module is of the contents of
    - all modules whose source runs when it is imported, whatever was imported before;
    - modules that these name in imports within functions;
    - files that these read at import, and those that they declare, as in `reads = ["a.csv"]`.

Files of installed packages and of rarefeat do not count. Python's cached bytecode is not used, so
that the text that is hashed is the text that runs.
"""

import ast
import hashlib
import importlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from rarefeat.core.errors import RarefeatError

PACKAGE = Path(__file__).parents[1]
CLOCK_TICK_NS = 2 * 10**9
"""A file that was written so recently may change again and keep its size and time."""


class UserModule(NamedTuple):
    """A module of the user's, as its files were when it was imported."""

    module: ModuleType
    signatures: dict[Path, tuple]
    """Of all files in the hash."""
    hash: str


IMPORTED: dict[tuple[Path, str], UserModule] = {}
"""By the working directory and the module's name."""
READING: list[dict[Path, bytes]] = []
"""Contents of the files that an import in progress has read; none if there is no import."""


def is_user_file(path: str | Path) -> bool:
    """Return whether a path is below the working directory, and of no installed package."""
    path, folder = Path(os.path.abspath(path)), Path.cwd()
    if not path.is_relative_to(folder):
        return False
    packages = (PACKAGE, Path(sys.prefix), Path(sys.base_prefix))
    installed = [package for package in packages if package.is_relative_to(folder)]
    return "site-packages" not in path.parts and not any(map(path.is_relative_to, installed))


class SourceLoader(SourceFileLoader):
    """Runs the source of a user's module, and no cached bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source as it is."""
        source = self.get_data(self.path)
        for contents in READING:
            contents[Path(self.path)] = source
        return self.source_to_code(source, self.path)


class UserFinder:
    """Finds the user's modules for SourceLoader."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module; None if it is not the user's."""
        spec = PathFinder.find_spec(name, path, target)
        if (
            not spec
            or not isinstance(spec.loader, SourceFileLoader)
            or not is_user_file(spec.origin)
        ):
            return None
        spec.loader = SourceLoader(name, spec.origin)
        return spec


def note_read(event: str, arguments: tuple) -> None:
    """Note a file that a user's module opens at import; an audit hook."""
    if (
        READING
        and event == "open"
        and isinstance(arguments[0], str)
        and arguments[1] in ("r", "rb")
    ):
        frame: FrameType | None = sys._getframe(1)
        # What an installed package opens when it is first imported depends on earlier imports.
        while frame and "importlib" not in (file := frame.f_code.co_filename):
            if is_user_file(file) and is_user_file(arguments[0]):
                READING[-1].setdefault(Path(os.path.abspath(arguments[0])), b"")
                return
            frame = frame.f_back


def is_user_module(module: ModuleType) -> bool:
    """Return whether an imported module is the user's, of this working directory or another."""
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    return isinstance(loader, SourceLoader) or (path != "" and is_user_file(path))


def import_afresh(name: str) -> tuple[ModuleType, dict[Path, bytes]]:
    """Import a module from its source, and list the files that this reads.

    Other modules of the user's stay imported as they were, and the ones that this imports are new.
    """
    if UserFinder not in sys.meta_path:
        sys.meta_path.insert(0, UserFinder)
        sys.addaudithook(note_read)
    folder = str(Path.cwd())
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    importlib.invalidate_caches()
    earlier = {key: module for key, module in sys.modules.items() if is_user_module(module)}
    earlier.pop("__main__", None)
    for key in earlier:
        del sys.modules[key]
    contents: dict[Path, bytes] = {}
    READING.append(contents)
    try:
        module = importlib.import_module(name)
        for path in list_files(contents):
            contents[path] = contents.get(path) or path.read_bytes()
    except RarefeatError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise RarefeatError(f"{module_file(name)} cannot be imported: {reason}") from error
    finally:
        READING.remove(contents)
        for key, before in earlier.items():
            # Modules of one package stay together, and a later import in a function is new, too.
            is_listed = Path(getattr(before, "__file__", None) or "") in contents
            if key.partition(".")[0] not in sys.modules and not is_listed:
                sys.modules[key] = before
    return module, contents


def list_files(files: Iterable[Path]) -> list[Path]:
    """List files, and those that Python modules among them import in functions or declare."""
    queue = list(files)
    for path in queue:
        tree = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
        for node in ast.walk(tree):
            named: Iterable[Path] = ()
            if isinstance(node, ast.Import):
                named = [
                    file for item in node.names for file in module_files(Path.cwd(), item.name)
                ]
            elif isinstance(node, ast.ImportFrom):
                folder = path.parents[node.level - 1] if node.level else Path.cwd()
                names = [".".join(filter(None, [node.module, item.name])) for item in node.names]
                named = [file for name in names for file in module_files(folder, name)]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reads":
                named = declared_files(path, node.value)
            queue += [file for file in named if file not in queue and is_user_file(file)]
    return queue


def module_files(folder: Path, name: str) -> Iterator[Path]:
    """List the files of a module, and of the packages around it, that are below a folder."""
    for part in name.split("."):
        folder = folder / part
        files = (folder.with_suffix(".py"), folder / "__init__.py")
        yield from (file for file in files if file.is_file())


def declared_files(path: Path, value: ast.expr) -> list[Path]:
    """List the files that a module declares, of which all must exist."""
    names = [getattr(item, "value", None) for item in getattr(value, "elts", [None])]
    if not all(isinstance(name, str) for name in names):
        raise RarefeatError(f"{path}: reads must be a list of file names, got {ast.unparse(value)}")
    if missing := [name for name in names if not Path(name).is_file()]:
        raise RarefeatError(f"{path}: reads: there is no file {missing[0]} in {Path.cwd()}")
    return [Path.cwd() / name for name in names]


def module_file(name: str) -> Path:
    """Return the file of a module of the user's."""
    return Path.cwd().joinpath(*name.split(".")).with_suffix(".py")


def signature(path: Path) -> tuple:
    """Return what differs after an edit of a file: size and times, or contents soon after one."""
    try:
        about = path.stat()
        is_recent = time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) < CLOCK_TICK_NS
        contents = path.read_bytes() if is_recent else b""
    except OSError:
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, contents


def load_user_module(name: str) -> UserModule:
    """Import a module of the user's, anew if a file of its hash was edited since the last time.

    Raises
    ------
    RarefeatError
        If it cannot be imported, or if another module has its name.
    """
    key = Path.cwd(), name
    if key in IMPORTED:
        signatures = IMPORTED[key].signatures
        if all(signature(path) == before for path, before in signatures.items()):
            return IMPORTED[key]
    is_builtin = name.partition(".")[0] in sys.stdlib_module_names
    module, contents = (sys, {}) if is_builtin else import_afresh(name)
    if getattr(module, "__file__", None) != str(module_file(name)):
        raise RarefeatError(
            f"{module_file(name)}: an installed module is called {name}, too; rename the file"
        )
    texts = sorted(
        (path.relative_to(Path.cwd()).as_posix(), text) for path, text in contents.items()
    )
    parts = [
        hashlib.sha256(part).digest() for name, text in texts for part in (name.encode(), text)
    ]
    value = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    IMPORTED[key] = UserModule(module, {path: signature(path) for path in contents}, value)
    return IMPORTED[key]


def hash_user_code(name: str) -> str:
    """Hash the files of a user's function MODULE:FUNCTION."""
    return load_user_module(name.partition(":")[0]).hash
