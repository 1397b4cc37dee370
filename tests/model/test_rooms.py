"""The promises about own code (docs/own_code.md)."""

import os
import sys
from pathlib import Path

import pytest
import torch
from conftest import refusal

import rarefeat
from rarefeat.model import rooms

SMALL = {"T": 12, "N": 128, "d1": 20, "K": 16, "probe_pairs": 40, "progress": False}
LOSS = "def loss(f_x, f_y):\n    return (f_x - f_y).square().mean() - {}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory, and a session that is left as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def train(seeds=(1, 2), **keys):
    """The R^2 of the last seed."""
    learners = rarefeat.train_learners(seed=list(seeds), **{**SMALL, **keys})
    return learners.table.query("seed == @seeds[-1]")["r2"].tolist()


def write(name, text):
    Path(f"{name}.py").write_text(text)


class Permuted(torch.nn.Module):
    """Draws what is no parameter."""

    def __init__(self, d1, m):
        super().__init__()
        self.weights = torch.nn.Parameter(0.05 * torch.randn(m, d1))
        self.order = torch.randperm(d1).tolist()

    def forward(self, tokens):
        return torch.relu(tokens[..., self.order] @ self.weights.mT).sum(-2)


class Clipped(torch.optim.SGD):
    """Couples all that it is given."""

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 0.01)
        super().step()


def counting(f_x, f_y, calls=[]):  # noqa: B006
    """Changes with each call."""
    calls.append(1)
    return (f_x - f_y).square().mean() * len(calls) + torch.rand(()) * f_x.mean()


@pytest.mark.parametrize(
    "keys",
    [{"encoder": Permuted}, {"optimiser": Clipped}, {"loss": counting}],
    ids=lambda keys: next(iter(keys)),
)
def test_a_seed_depends_neither_on_seeds_beside_it_nor_on_earlier_calls(keys):
    keys = {"loss": "vicreg"} | keys
    assert train([2], **keys) == train([1, 2], **keys) == train([2], **keys)


def test_rule_that_keeps_its_first_mask_is_of_one_seed():
    write(
        "own",
        "from rarefeat.model.pruning import mask_smallest\nKEPT = {}\ndef rule(context):\n"
        "    return KEPT.setdefault(0, mask_smallest(context.norms, context.alpha))\n",
    )

    def number(seeds):
        table = rarefeat.sweep(arm="own:rule", alpha=0.25, seed=seeds, test_pairs=40, **SMALL).table
        return table[table.seed == 2]["max_alignment"].item()

    assert number([2]) == number([1, 2])
    assert "own" not in sys.modules


READS = {
    "a file": (
        "",
        "float(open('level.txt').read())",
        'declare it in own.py: reads = ["level.txt"]',
    ),
    "in a thread": (
        "import threading, pathlib\ndef read():\n    OUT.append(float(open('level.txt').read()))\n"
        "OUT = []\ndef level():\n    t = threading.Thread(target=read)\n    t.start()\n"
        "    t.join()\n    return OUT[0]\n",
        "level()",
        'reads = ["level.txt"]',
    ),
    "a module": ("", "__import__('other').LEVEL", "import it at the top of own.py"),
    "a folder": ("import os\n", "len(os.listdir('.'))", "which may be edited unseen"),
    "a program": (
        "import subprocess\n",
        "float(subprocess.check_output(['cat', 'level.txt']))",
        "subprocess.Popen: what else it reads is not seen",
    ),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_in_the_hash_or_refused(name):
    before, value, words = READS[name]
    Path("level.txt").write_text("1")
    write("other", "LEVEL = 1\n")
    write("own", before + LOSS.format(value))
    assert words in refusal(train, loss="own:loss")
    first = rooms.hash_user_code("own:loss")
    write("own", before + f"LEVEL = {value}\nreads = ['level.txt']\n" + LOSS.format("LEVEL"))
    train(loss="own:loss")
    second = rooms.hash_user_code("own:loss")
    assert first != second
    Path("level.txt").write_text("2")
    assert rooms.hash_user_code("own:loss") != second


@pytest.mark.parametrize("value", ["time.time() % 1", "os.getpid() % 97", "os.urandom(1)[0]"])
def test_numbers_of_more_than_the_seed_are_refused(value):
    write("own", "import os, time\n" + LOSS.format(f"({value}) * f_x.mean()"))
    assert "a seed has other numbers when it is trained again" in refusal(train, loss="own:loss")


def test_own_file_sees_no_session_and_changes_none(monkeypatch):
    monkeypatch.setenv("MY_LEVEL", "2")
    patch = "import torch\ntorch.optim.SGD.step = lambda self: None\nimport os\n"
    write("own", patch + "os.environ['X'] = '1'\n" + LOSS.format("float(os.environ['MY_LEVEL'])"))
    plain = train(loss="vicreg")
    assert "KeyError: 'MY_LEVEL'" in refusal(train, loss="own:loss")
    write("own", patch + LOSS.format(0))
    train(loss="own:loss")
    assert plain == train(loss="vicreg")
    assert "X" not in os.environ


def test_file_that_is_edited_while_it_trains_is_refused():
    edit = "open('own.py', 'a').write('#')"
    write("own", LOSS.format("f_x.mean()") + f"{edit} if __name__ == 'x' else None\n")
    train(loss="own:loss")
    write("own", LOSS.format(f"0 * {edit}"))
    assert "own.py: was edited while it trained" in refusal(train, loss="own:loss")


def test_end_of_a_room_is_one_line():
    write("own", "import os\n" + LOSS.format("os._exit(3)"))
    assert refusal(train, loss="own:loss") == "train_learners: own:loss: its process was killed"


def test_without_forks_a_rehearsal_beside_another_seed_guards_it(monkeypatch):
    monkeypatch.setattr(rooms, "CAN_FORK", False)
    with pytest.warns(UserWarning, match="trains in this process, all seeds at once"):
        assert len(train(loss=lambda f_x, f_y: (f_x - f_y).square().mean())) == 9
    with pytest.warns(UserWarning, match="guards it alone"):
        line = refusal(train, loss="vicreg", optimiser=Clipped)
    assert "a seed has other numbers" in line


def test_stream_of_an_own_law_begins_anew():
    def law(n, generator, probability, calls=[]):  # noqa: B006
        calls.append(1)
        return (torch.rand(n, 9, generator=generator) < probability).float() * len(calls)

    pairs = rarefeat.stream_pairs(K=16, N=32, d1=20, data_law=law)
    first, again = iter(pairs), iter(pairs)
    batches = [next(first) for _ in range(4)]
    for batch in batches:
        assert all(map(torch.equal, batch, next(again)))
    assert batches[3][2].max() > batches[0][2].max()
