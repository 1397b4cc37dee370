# Two-layer networks: every setting, and the search for learning rates.

from rarefeat.studies.two_layer.declaration import MEASURE as MEASURE_TWO_LAYER, SEARCH


# Trains every method of a setting.
rule measure_two_layer:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
        pictures="<results>/pictures/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_two_layer/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(MEASURE_TWO_LAYER)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(MEASURE_TWO_LAYER)),
        function=MEASURE_TWO_LAYER.function,
        place=place_of,
    shell:
        RUN_STAGE


# Trains at every learning rate of the search.
rule search_rates:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/search_rates/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=any_of(PROJECT.studies_of(SEARCH)),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(SEARCH)),
        function=SEARCH.function,
        place=place_of,
    shell:
        RUN_STAGE
