"""What of the config a job is told.

A new key at a default of nothing changes no job, every other value stands there.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, create_model

from rarefeat.workflow.config.model import Arm, Bias, Data, Training, Views
from rarefeat.workflow.config.section import NOTHING, Section, dump_config
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.study_kind import StudyKind, StudyOutputs


class Inner(Section):
    share: float = 0.0
    names: tuple[str, ...] = ()


class Old(Section):
    eta: float
    steps: int = Field(default=5)
    inner: Inner = Inner()


def extended(default: Any, **options) -> type[Old]:
    """The section with one more optional key."""
    return create_model("New", __base__=Old, new=(Any, Field(default=default, **options)))


@pytest.mark.parametrize("default", [None, False, 0, 0.0, "", [], {}, Inner(), "mean", 2.5, ["a"]])
@pytest.mark.parametrize("value", [*NOTHING, 1, "mean", [0], {"a": 0}, Inner(names=("a",))])
def test_a_new_key_is_told_but_at_a_default_of_nothing(default, value):
    """Or at the default that stands for nothing, so that it changes no job that does not set it."""
    old, nothing = dump_config(Old(eta=0.1)), not default or default == Inner()
    assert old == {"eta": 0.1, "steps": 5}
    plain, absent = extended(default), extended(default, json_schema_extra={"absent": default})
    assert dump_config(absent(eta=0.1)) == old
    assert (dump_config(plain(eta=0.1)) == old) == nothing
    if value != default and (value or not nothing):
        for section in (plain, absent):
            assert dump_config(section(eta=0.1, new=value))["new"] == dump_config(value)


def test_a_required_key_and_a_changed_default_stand_there():
    assert dump_config(Old(eta=0)) == {"eta": 0.0, "steps": 5}
    assert dump_config(Bias(rule="follow", share=0, cap=1, T1=3))["share"] == 0
    changed = create_model("Old", __base__=Old, steps=(int, Field(default=6)))
    assert dump_config(changed(eta=0.1)) != dump_config(Old(eta=0.1))


# What is told reads back


shares, positive = st.just(0.0) | st.floats(1e-6, 1), st.floats(1e-3, 10)
masks = st.builds(Views, mask=st.floats(0.01, 0.99), clean_negatives=st.booleans())
noises = st.builds(Views, rho=shares)
colours = st.builds(
    Views, colour=st.integers(1, 3), colour_sigma=positive, colour_redrawn=st.booleans()
)
data = st.builds(
    Data, d=st.integers(4, 9), d1=st.integers(20, 50), L=st.just(1), C=st.floats(0.1, 5),
    minority=st.lists(st.floats(0.01, 1), min_size=1, max_size=3), N=st.integers(20, 50),
    probe_pairs=st.integers(2, 9), test_pairs=st.integers(20, 50),
    views=masks | noises | colours,
)  # fmt: skip
biases = st.builds(
    Bias, rule=st.sampled_from(["follow", "grow", "gradient"]), share=shares, cap=positive,
    T1=st.just("eq34") | st.integers(1, 9),
)  # fmt: skip
# eta lambda is below 1, and T1 is at most T.
trainings = st.builds(
    Training, m=st.integers(1, 9), K=st.integers(2, 20), tau=positive, eta=st.floats(0.01, 0.9),
    lambda_=shares, sigma_0=st.floats(0.001, 2), T=st.integers(9, 99), bias=biases,
    history=st.booleans(),
)  # fmt: skip
ratio_arms = st.builds(
    Arm, arm=st.sampled_from(["pruned_neuron", "pruned_weight"]), alpha=st.floats(0.01, 0.99),
    onset=st.integers(0, 9), pruned_update=st.sampled_from(["unmasked", "straight_through"]),
)  # fmt: skip
arms = ratio_arms | st.builds(Arm, arm=st.sampled_from(["dense", "oracle_all", "initial", "ideal"]))


def read_back(section: Section) -> Section:
    return type(section).model_validate(dump_config(section))


@given(data | trainings | arms | (masks | noises | colours))
def test_what_is_told_reads_back_to_an_equal_section(section):
    assert read_back(section) == section
    assert dump_config(read_back(section)) == dump_config(section)


@given(trainings, trainings)
def test_two_sections_are_told_alike_only_where_they_are_equal(one, other):
    assert (dump_config(one) == dump_config(other)) == (one == other)


@pytest.mark.parametrize("files", [[], ["config/quick.yaml"]])
def test_every_section_of_the_shipped_config_reads_back(files):
    project = load("config/config.yaml", *files)
    assert set(project.sections) == set(kinds())
    studies = [study for study in project.studies.values() if isinstance(study, Section)]
    assert len(studies) > 20
    for section in [*project.sections.values(), *studies]:
        assert read_back(section) == section
        assert dump_config(read_back(section)) == dump_config(section)


def test_section_inherits_the_keys_of_its_kind():
    shared = {"seeds": 9, "first_seed": 5, "data": {"d": 3}}
    kind = StudyKind(
        "mine", "Mine", SeedSettings, lambda section: StudyOutputs(), inherits=("first_seed",)
    )
    assert kind.inherited({"seeds": 2, "data": 1}, shared) == {
        "seeds": 2,
        "data": 1,
        "first_seed": 5,
    }
    assert replace(kind, inherits=()).inherited({"seeds": 2}, shared) == {"seeds": 2}
