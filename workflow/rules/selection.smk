"""Which neurons to prune: sweeps of the encoder; the digits are rule `measure`."""


rule measure_selection:
    """Train the arms of a cell, and score neurons on the way."""
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
        scores="<results>/scores/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_selection/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.selection.measure:measure_selection"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *reads(
            "studies.selection.measure:measure_selection",
            *("draws", "data", "training", "sigma", "hypercube", "arms"),
            *("scored", "memory", "patience", "probed"),
        ),
    shell:
        "rarefeat run studies.selection.measure:measure_selection {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
