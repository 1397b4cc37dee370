# Exact results: each is one stage.

from rarefeat.studies.exact_results.declaration import STAGES

for stage in STAGES.values():
    make_stage_rule(stage)
