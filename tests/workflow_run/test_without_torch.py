"""What torch costs to import, a second and more, is for jobs that compute with tensors."""

import subprocess
import sys

CODE = """
import sys
import rarefeat.claims.jobs, rarefeat.figures.save, rarefeat.workflow.pages
import rarefeat.stages.aggregate, rarefeat.studies.imbalance.figures, rarefeat.workflow.run.command
from rarefeat.workflow.project import load

load()
print("torch" in sys.modules)
"""


def test_plans_tables_of_the_chain_and_figures_import_no_torch():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
