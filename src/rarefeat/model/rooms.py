"""Rooms: forked processes in which own code runs, each for one seed of one training.

What a seed's numbers are, where own code takes part, is defined by a room: the seed is alone in it,
the user's files are imported anew, and all generators are seeded by it. So nothing that own code
keeps, patches, draws or sets reaches another seed, another training or this process.

A room notes what own code opens, and refuses it where no hash has it (own_files.py). A rehearsal,
the first steps of a seed in another room, must have the same bits: otherwise the numbers depend on
more than the seed. Where a process cannot be forked, or trains on a GPU, it is the room itself.
"""

import builtins
import contextlib
import ctypes
import gc
import hashlib
import io
import os
import pickle
import selectors
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from rarefeat.errors import RarefeatError
from rarefeat.model import own_files
from rarefeat.model.own_files import Notes, Seal

Key = tuple[str, int]
"""Namespace and seed, which seed the generators of a room."""
Work = Callable[[], Iterable]
"""Yields what a room is to send."""

BUILTINS = frozenset(vars(builtins))
VARIABLES = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMP", "XDG_", "LD_", "PYTHON", "RAREFEAT_"),
    *("CUDA", "TORCH", "NUMBA_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "MALLOC_", "GLIBC_", "JE_"),
)
"""Beginnings of the environment variables that code of files sees, and *_NUM_THREADS."""
REHEARSED_STEPS = 10
PR_SET_PDEATHSIG = 1
CAN_FORK = sys.platform == "linux"
SEALED: dict[tuple[str, ...], Seal] = {}
"""Seals of modules by their name and the folders in which they and their imports are looked for."""


class Room:
    """What is known of the room that this process is."""

    def __init__(self, own: list[str], is_rehearsal: bool, seals: dict[str, Seal]) -> None:
        self.own, self.is_rehearsal, self.seals = own, is_rehearsal, seals
        self.is_forked, self.notes = False, Notes()
        self.digest, self.n_marks = b"", 0

    def refusal(self) -> str:
        """Return why own code of files is refused for what it has read; empty if it is not."""
        if not self.seals or len(modules_of(self.own)) < len(set(self.own)):
            return ""
        unseen = own_files.find_unseen(self.notes, self.seals)
        return unseen and f"{', '.join(self.own)}: {unseen}"


class Answer(NamedTuple):
    """What a room sends."""

    value: Any = None
    digest: bytes = b""
    error: str = ""
    trace: str = ""
    warned: tuple[tuple[str, type[Warning]], ...] = ()


class Rehearsed(BaseException):
    """The end of a rehearsal."""


class OwnTraceback(Exception):
    """The traceback of an error in a room."""


ROOM: Room | None = None
"""The room that this process is."""


def is_inside() -> bool:
    """Return whether this process is a room."""
    return ROOM is not None


def is_alone() -> bool:
    """Return whether this process is a room of one seed."""
    return ROOM is not None and ROOM.is_forked


def mark(*tensors: Any) -> None:
    """Note the state (S, ...) of the last replica before a step in which own code acts."""
    import torch

    if ROOM and ROOM.n_marks <= REHEARSED_STEPS:
        for tensor in tensors:
            data = tensor[-1].detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            ROOM.digest = hashlib.sha256(ROOM.digest + data.tobytes()).digest()
        ROOM.n_marks += 1
        if ROOM.n_marks > REHEARSED_STEPS and ROOM.is_rehearsal:
            raise Rehearsed


def aside(checks: Callable[[], Any]) -> None:
    """Make checks of own code where they leave no trace: once, in a room of the rehearsal."""
    if not ROOM or not ROOM.is_forked:
        checks()
    elif ROOM.is_rehearsal:
        run_rooms([lambda: [checks()]], [("", 0)], ROOM.own, ROOM.seals)


def train_alone(
    train: Callable[[int], Any],
    namespace: str,
    seeds: list[int],
    own: list[str],
    is_rehearsed: bool = True,
    show: Callable[[Iterable, int], Iterable] = lambda items, total: items,
) -> list:
    """Return what `train` returns of each seed, in a room of its own; several run side by side.

    RarefeatError if own code fails, reads what no hash has, or if a rehearsal of the first seed has
    other numbers.
    """
    import torch._dynamo  # noqa: F401, which a first optimiser imports, and each room would

    order = [*seeds[:is_rehearsed], *seeds]
    works = [lambda seed=seed: [train(seed)] for seed in order]
    keys, seals = [(namespace, seed) for seed in order], seal_all(own)
    found = run_rooms(works, keys, own, seals, is_rehearsed, show)
    check_same(found[0], found[is_rehearsed], own)
    for name, before in seals.items():
        if not is_current(before):
            path = own_files.module_file(name)
            raise RarefeatError(f"{path}: was edited while it trained; run it again")
    return [answer.value for answer in found[is_rehearsed:]]


def train_here(train: Callable[[list[int], str], Any], seeds: list[int], own: list[str]) -> Any:
    """Return what `train` returns of all seeds at once, in this process as a room.

    A rehearsal of the last seed on the processor, alone and beside another one, guards it alone.
    """
    warnings.warn(
        f"{', '.join(own)}: trains in this process, all seeds at once, as a GPU or a system without"
        " forks needs it; a rehearsal of the last seed, alone and beside another, guards it alone",
        stacklevel=2,
    )
    seals = seal_all(own)

    def occupied(some: list[int], device: str, is_rehearsal: bool) -> Answer:
        (answer,) = occupy(lambda: [train(some, device)], ("", 0), Room(own, is_rehearsal, seals))
        return settle(answer)

    alone, beside = occupied(seeds[-1:], "cpu", True), occupied(seeds[-2:], "cpu", True)
    check_same(alone, beside, own)
    return occupied(seeds, "", False).value


def check_same(first: Answer, second: Answer, own: list[str]) -> None:
    """Raise RarefeatError if two rooms had other numbers."""
    if first.digest != second.digest:
        raise RarefeatError(
            f"{', '.join(own)}: a seed has other numbers when it is trained again; own code must"
            " not use the clock, unseeded generators, numbers of processes, files that it writes"
            " or, where all seeds train at once, the other seeds"
        )


def stream(items: Work, key: Key, own: list[str]) -> Iterator:
    """Yield items from a room, which ends with this iterator."""
    if not CAN_FORK or ROOM:
        yield from items()
        return
    pid, reader = fork(items, key, Room(own, False, seal_all(own)))
    with os.fdopen(reader, "rb") as file:
        try:
            while True:
                yield settle(load(file, own)).value
        finally:
            end(pid)


def modules_of(own: Iterable[str]) -> list[str]:
    """List the modules of own code of files, which is called MODULE:NAME."""
    return list(dict.fromkeys(name.partition(":")[0] for name in own if ":" in name))


def seal_all(own: Iterable[str]) -> dict[str, Seal]:
    """Return the seals of the modules of own code."""
    return {name: seal(name) for name in modules_of(own)}


def seal(module: str) -> Seal:
    """Return the seal of a module of the user's, which is imported in a room."""
    place = module, *own_files.search_folders()
    if place not in SEALED or not is_current(SEALED[place]):
        room = Room([f"{module}:"], False, {})

        def work() -> list[Seal]:
            return [own_files.seal(module, own_files.NOTED[-1])]

        key = "", 0
        (answer,) = run_rooms([work], [key], room.own, {}) if CAN_FORK else occupy(work, key, room)
        SEALED[place] = settle(answer).value
    return SEALED[place]


def is_current(seal: Seal) -> bool:
    """Return whether no file of a seal was edited."""
    return all(own_files.is_unedited(*item) for item in seal.signatures.items())


def hash_user_code(name: str) -> str:
    """Hash the files of own code MODULE:NAME."""
    return seal(name.partition(":")[0]).hash


def n_cores() -> int:
    """Return how many rooms run side by side: the cores, or OMP_NUM_THREADS if it is less."""
    limit, n = os.environ.get("OMP_NUM_THREADS", ""), len(os.sched_getaffinity(0))
    return max(1, min(n, int(limit))) if limit.isdecimal() else n


def run_rooms(
    works: list[Work],
    keys: list[Key],
    own: list[str],
    seals: dict[str, Seal],
    is_rehearsed: bool = False,
    show: Callable[[Iterable, int], Iterable] = lambda items, total: items,
) -> list[Answer]:
    """Return what each work answers in a room of its own; the first may be a rehearsal."""
    rooms: dict[int, tuple[int, int, list[bytes]]] = {}
    found: dict[int, Answer] = {}
    waiting, n = list(range(len(works))), n_cores()

    def is_over() -> bool:
        # The checks of a rehearsal say more than what fails without them.
        is_failed = 0 in found and any(answer.error for answer in found.values())
        return is_failed or len(found) == len(works)

    def finished(selector: selectors.BaseSelector) -> Iterator[int]:
        while not is_over():
            while waiting and len(rooms) < n:
                place = waiting.pop(0)
                room = Room(own, is_rehearsed and place == 0, seals)
                pid, reader = fork(works[place], keys[place], room)
                rooms[reader] = place, pid, []
                selector.register(reader, selectors.EVENT_READ)
            for event, _ in selector.select():
                place, pid, parts = rooms[event.fd]
                if part := os.read(event.fd, 2**20):
                    parts.append(part)
                else:
                    selector.unregister(event.fd)
                    os.close(event.fd)
                    os.waitpid(pid, 0)
                    del rooms[event.fd]
                    found[place] = load(io.BytesIO(b"".join(parts)), own)
                    yield place

    with selectors.DefaultSelector() as selector:
        try:
            for _ in show(finished(selector), len(works)):
                pass
        finally:
            for reader, (_, pid, _) in rooms.items():
                os.close(reader)
                end(pid)
    return [settle(answer) for _, answer in sorted(found.items())]


def fork(items: Work, key: Key, room: Room) -> tuple[int, int]:
    """Start a room; return its process and the pipe on which it sends its answers."""
    for file in (sys.stdout, sys.stderr):
        file.flush()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which stay behind
        pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        os.close(reader)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that has started this one acts
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        gc.freeze()  # a collection that looked at these objects would copy them
        # What a notebook shows would go by threads that this process has not.
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        sys.stdin = open(os.devnull)
        room.is_forked = True
        with os.fdopen(writer, "wb") as file:
            for answer in occupy(items, key, room):
                file.write(dump(answer))
                file.flush()
        for file in (sys.stdout, sys.stderr):
            file.flush()
    finally:
        os._exit(0)  # taking all packages down takes longer than the room


def dump(answer: Answer) -> bytes:
    """Return an answer as bytes."""
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return pickle.dumps(Answer(error=f"own code returns what is no plain tensor: {error}"))


def load(file: Any, own: list[str]) -> Answer:
    """Read the answer of a room."""
    try:
        return PlainUnpickler(file).load()
    except EOFError:
        return Answer(error=f"{', '.join(own)}: its process was killed")


class PlainUnpickler(pickle.Unpickler):
    """Reads answers without importing the user's modules."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of a module that is imported."""
        if module not in sys.modules:
            raise RarefeatError(f"own code must return plain tensors, got {module}.{name}")
        return super().find_class(module, name)


def settle(answer: Answer) -> Answer:
    """Raise the error of a room, and give its warnings."""
    for text, category in answer.warned:
        warnings.warn(text, category, stacklevel=2)
    if answer.error:
        raise RarefeatError(answer.error) from (
            OwnTraceback(answer.trace) if answer.trace else None
        )
    return answer


def end(pid: int) -> None:
    """End a room."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def occupy(items: Work, key: Key, room: Room) -> Iterator[Answer]:
    """Make this process a room, and yield its answers; within another room, as part of that."""
    global ROOM
    outer, ROOM = ROOM, ROOM or room
    room = ROOM
    own_files.install_hooks()
    own_files.NOTED[:] = [room.notes]
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:

        def answer(**values: Any) -> Answer:
            warned = [
                (
                    str(item.message),
                    item.category if vars(builtins).get(item.category.__name__) else UserWarning,
                )
                for item in caught
            ]
            caught.clear()
            return Answer(digest=room.digest, warned=tuple(dict.fromkeys(warned)), **values)

        try:
            if not outer:
                stack.enter_context(seeded(key))
                furnish(room)
            for item in items():
                if refusal := room.refusal():
                    raise RarefeatError(refusal)
                yield answer(value=item)
        except Rehearsed:
            yield answer(error=room.refusal())
        except (Exception, SystemExit) as error:
            trace = "".join(traceback.format_exception(error.__cause__ or error))
            line = f"{', '.join(room.own)}: fails: {one_line(error)}"
            if isinstance(error, RarefeatError):
                line = str(error)
            yield answer(error=room.refusal() or line, trace=trace)
        finally:
            ROOM = outer
            own_files.NOTED[:] = [outer.notes] if outer else []


def one_line(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def seeded(key: Key) -> contextlib.AbstractContextManager:
    """Seed the global generators by a key, for a while."""
    from rarefeat.model.randomness import generator, global_generators
    from rarefeat.model.stream_names import OWN_CODE

    return global_generators(generator(*key, OWN_CODE))


def furnish(room: Room) -> None:
    """Forget the session where own code of files alone runs, and import its modules."""
    import torch

    if room.is_forked:
        torch.set_num_threads(1)
        torch.set_num_threads = lambda n: None  # the threads of an earlier pool are not here
    if not (modules := modules_of(room.own)):
        return
    own_files.forget_modules()
    if room.is_forked and len(modules) == len(set(room.own)):
        sys.modules["__main__"], sys.argv = ModuleType("__main__"), [""]
        for name in vars(builtins).keys() - BUILTINS:
            delattr(builtins, name)
        for name in [*os.environ]:
            if not name.startswith(VARIABLES) and not name.endswith("_NUM_THREADS"):
                del os.environ[name]
    for name in modules:
        own_files.import_module(name)
