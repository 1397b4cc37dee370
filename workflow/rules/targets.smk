"""The targets by name: every kind of study, every study, every figure, the claims of every paper."""

for target, paths in PROJECT.targets.items():

    rule:
        name:
            target
        input:
            [f"<results>/{path}" for path in paths],


for study, error in PROJECT.left_out.items():
    logger.warning(f"the study {study} is left out: {error}")
