"""Files of claims: what is wrong in one is one line that names file, claim and key."""

import re
from itertools import count
from pathlib import Path

import pytest
import yaml
from conftest import refusal

from rarefeat.claims import declarations as module
from rarefeat.claims import jobs
from rarefeat.claims.claim import Regime
from rarefeat.claims.declarations import load_claims
from rarefeat.errors import RarefeatError
from rarefeat.workflow.project import load, parse

CLAIM = {
    "source": "s", "statement": "t", "quantity": "q", "test": "superiority", "side": "above",
    "threshold": 0, "reason": "r", "primary": {"study": "main", "eps_min": 0.5}, "control": "c",
    "seeds": 20, "tolerance": 0.1,
}  # fmt: skip
NUMBERS = count()


def read(folder: Path, **groups):
    """Return the claims of a file with these groups; each has its own name, as it is cached."""
    kind = f"kind_{next(NUMBERS)}"
    (folder / kind).mkdir()
    raw = {"paper": "paper", "axes": {"eps_min": "eps_min {}"}, "groups": groups}
    (folder / kind / "claims.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
    return load_claims(kind, folder)


def test_a_file_says_all_of_a_claim(tmp_path):
    found = read(tmp_path, part={"a": CLAIM | {"threshold": "27/32"}}, other={"b": CLAIM})
    assert [claim.group for claim in found.claims.values()] == ["part", "other"]
    assert found.claims["a"].threshold == 27 / 32
    assert found.claims["a"].primary == Regime("main", {"eps_min": 0.5})
    assert found.format_regime(found.claims["a"].primary) == "main: eps_min 0.5"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threshold": "much"}, "claim a: threshold: Input should be a valid number"),
        ({"seeds": 1.5}, "claim a: seeds: "),
        ({"margin": 0.1}, "claim a: margin: superiority has none"),
        ({"test": "non-inferiority"}, "claim a: margin: non-inferiority has one above 0"),
        ({"test": "equivalence", "margin": 0.1}, "claim a: side: equivalence"),
        ({"success": {"above": 1}}, "claim a: success: its kind is `0 or 1`"),
        ({"primary": "main"}, "claim a: primary: must be a mapping"),
    ],
)
def test_error_in_claim_is_one_line(tmp_path, change, said):
    line = refusal(read, tmp_path, part={"a": CLAIM | change})
    assert re.search(rf"kind_\d+/claims.yaml: .*{re.escape(said)}", line)


def test_missing_key_and_wrong_ids_are_one_line(tmp_path):
    without = {key: value for key, value in CLAIM.items() if key != "seeds"}
    for groups, said in (
        ({"part": {"a": without}}, "claim a: seeds: missing"),
        ({"part": {3.1: CLAIM}}, "groups.part.3.1: Input should be a valid string"),
        ({"part": {"a": CLAIM}, "other": {"a": CLAIM}}, "claim a: it stands in two groups, part"),
        ({"part": {}}, "groups.part: Dictionary should have at least 1 item"),
    ):
        with pytest.raises(RarefeatError, match=said):
            read(tmp_path, **groups)


def test_declared_claims_of_papers_have_a_reason_and_a_control():
    sets = load().claim_sets.items()
    claims = [one for kind, known in sets if known.paper != kind for one in known.claims.values()]
    assert [claim.id for claim in claims if not (claim.reason and claim.control)] == []


def test_claim_id_of_two_files_is_refused(monkeypatch):
    path = module.STUDIES / "theory" / "claims.yaml"
    raw, read_yaml = yaml.safe_load(path.read_text()), module.read_yaml
    raw["groups"]["stage 1"]["T2-rho"] = raw["groups"]["stage 1"].pop("3.1b")
    monkeypatch.setattr(
        module,
        "read_yaml",
        lambda path, what: raw if path.parent.name == "theory" else read_yaml(path, what),
    )
    load_claims.cache_clear()
    files = "studies/long_tail/claims.yaml and in studies/theory/claims.yaml"
    with pytest.raises(RarefeatError, match=f"claim T2-rho: its id is in {files}"):
        parse(yaml.safe_load(Path("config/config.yaml").read_text()))
    load_claims.cache_clear()


def test_the_job_of_each_kind_finds_its_own_claims(monkeypatch):
    """Also of a kind whose function for claims is in another folder."""
    project = load()
    monkeypatch.setattr(jobs, "load_function", lambda name: list)
    for kind, claim_set in project.claim_sets.items():
        job = project.table_job(f"{kind}_measured")
        measured = jobs.measured({}, job, "", job.config["claims"])
        assert set(measured["claim_id"]) <= set(claim_set.claims)
        assert len(measured) == len(claim_set.claims)
