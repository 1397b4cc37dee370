"""Cells, where their files lie, and how seeds are cut into jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from rarefeat.workflow.config.cells import Cell, cell_path
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.seeds import SeedsPerBlock, seed_blocks
from rarefeat.workflow.project import load

AT = Cell((("eps_min", 0.5), ("sigma", 0.05)), (Arm(arm="dense"), Arm(arm="ideal")))


def test_files_of_a_cell_lie_in_folders_of_its_values():
    assert AT.path == "eps_min=0.5/sigma=0.05"
    assert cell_path("encoders", "paper", AT, "1-2", "safetensors") == (
        "encoders/paper/eps_min=0.5/sigma=0.05/seeds=1-2.safetensors"
    )
    # What several cells share has the axes that it depends on.
    assert AT.restrict_to("eps_min").path == "eps_min=0.5"
    assert AT.restrict_to("sigma", "eps_min").axes == AT.axes
    assert (
        cell_path("latents", "paper", AT.restrict_to(), "1-2", "safetensors")
        == "latents/paper/seeds=1-2.safetensors"
    )


def test_no_two_files_of_the_workflow_have_one_path():
    studies = load("config/config.yaml").studies
    paths = [
        cell_path("probes", name, cell, block, "parquet")
        for name, study in studies.items()
        for cell in study.cells()
        for block in study.blocks()
    ]
    assert len(paths) == len(set(paths)) > 500


def test_blocks_by_hand():
    assert list(seed_blocks(100, 11, 4)) == ["100-103", "104-107", "108-110"]
    assert list(seed_blocks(100, 100, [20, 30, 50])) == ["100-119", "120-149", "150-199"]
    assert list(seed_blocks(0, 12, [2, 5])) == ["0-1", "2-6", "7-11"]
    assert list(seed_blocks(7, 1, [20, 30])) == ["7-7"]
    # The last size is that of all others.
    assert list(seed_blocks(0, 9, [1, 4])) == ["0-0", "1-4", "5-8"]


sizes = st.integers(1, 9) | st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(st.integers(0, 50), st.integers(1, 60), sizes)
def test_blocks_cover_every_seed_once_and_in_order(first, seeds, per_block):
    blocks = seed_blocks(first, seeds, per_block)
    assert [seed for block in blocks.values() for seed in block] == list(
        range(first, first + seeds)
    )
    assert all(name == f"{block[0]}-{block[-1]}" for name, block in blocks.items())


@given(st.integers(0, 50), st.integers(1, 60), st.integers(0, 40), sizes)
def test_more_seeds_leave_the_blocks_before_them_as_they_are(first, seeds, more, per_block):
    before, after = (seed_blocks(first, number, per_block) for number in (seeds, seeds + more))
    whole = list(before)[:-1]
    assert list(after)[: len(whole)] == whole
    # The last one too, but where it was cut short.
    (last,) = [block for name, block in before.items() if name not in whole]
    assert any(block[: len(last)] == last for block in after.values())


@pytest.mark.parametrize("value", [0, -1, [], [0], [20, 0], "all", 2.5])
def test_a_size_of_a_block_that_cannot_be_is_refused(value):
    with pytest.raises(ValidationError):
        TypeAdapter(SeedsPerBlock).validate_python(value)
