"""What of the config a job is told.

A new key at a default of nothing changes no job, every other value stands there.
"""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import Field, create_model

from rarefeat.workflow.config.model import Bias
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


@pytest.mark.parametrize("files", [[], ["config/quick.yaml"]])
def test_every_section_of_the_shipped_config_reads_back(files):
    project = load("config/config.yaml", *files)
    assert set(project.sections) == set(kinds())
    studies = [study for study in project.studies.values() if isinstance(study, Section)]
    assert len(studies) > 20
    for section in [*project.sections.values(), *studies]:
        again = type(section).model_validate(dump_config(section))
        assert again == section
        assert dump_config(again) == dump_config(section)


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
