"""The published claims, judged once for all pages and drawings."""

import functools

import pytest

import claims_forest
import pages
from published_claims import published_claims
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import load


@pytest.fixture(autouse=True, scope="session")
def judged_once():
    judged = functools.cache(lambda: published_claims(PublishedTables(), load()))
    with pytest.MonkeyPatch.context() as patch:
        for module in (claims_forest, pages):
            patch.setattr(module, "published_claims", lambda tables, project: judged().copy())
        yield
