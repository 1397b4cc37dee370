# Which neurons to prune: sweeps of the encoder, and digits.

from rarefeat.studies.selection.declaration import MEASURE as MEASURE_SELECTION


# Trains the arms of a cell, and scores neurons on the way.
rule measure_selection:
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
        scores="<results>/scores/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_selection/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs(MEASURE_SELECTION.function),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *told(stage_job(lambda study: MEASURE_SELECTION)),
        function=MEASURE_SELECTION.function,
    shell:
        "rarefeat run {params.function} {wildcards.study} --cell {wildcards.cell:q}"
        " --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
