# Two-layer networks: every setting, and the search for learning rates.

from rarefeat.studies.two_layer.declaration import MEASURE as MEASURE_TWO_LAYER


# Trains every method of a setting.
rule measure_two_layer:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
        pictures="<results>/pictures/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_two_layer/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(MEASURE_TWO_LAYER.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(lambda study: MEASURE_TWO_LAYER)),
        function=MEASURE_TWO_LAYER.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
