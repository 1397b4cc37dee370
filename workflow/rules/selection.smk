# Which neurons to prune: sweeps of the encoder, and digits.

from rarefeat.studies.selection.declaration import MEASURE as MEASURE_SELECTION, MEASURE_DIGITS


# Trains the arms of a cell, and scores neurons on the way.
rule measure_selection:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
        scores="<results>/scores/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_selection/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(MEASURE_SELECTION)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(MEASURE_SELECTION)),
        function=MEASURE_SELECTION.function,
        place=place_of,
    shell:
        RUN_STAGE


# Masks by neuron on long-tailed digits.
rule digits_of_selection:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/digits_of_selection/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(MEASURE_DIGITS)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(MEASURE_DIGITS)),
        function=MEASURE_DIGITS.function,
        place=place_of,
    shell:
        RUN_STAGE
