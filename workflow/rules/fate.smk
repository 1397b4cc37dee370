# Late learning: how many training steps a rare feature takes.

from rarefeat.studies.fate.declaration import MEASURE as MEASURE_FATE


# Trains until the rare feature is learned, or the run ends.
rule measure_fate:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_fate/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(MEASURE_FATE)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(MEASURE_FATE)),
        function=MEASURE_FATE.function,
        place=place_of,
    shell:
        RUN_STAGE
