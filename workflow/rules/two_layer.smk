"""Two-layer networks: every setting; the search for learning rates is rule `measure`."""


rule measure_two_layer:
    """Train and measure every method of a setting."""
    output:
        probes="<results>/probes/{study}/{cell}/seeds={seeds}.parquet",
        pictures="<results>/pictures/{study}/{cell}/seeds={seeds}.parquet",
    log:
        "<results>/logs/measure_two_layer/{study}/{cell}/seeds={seeds}.log",
    wildcard_constraints:
        study=runs("studies.two_layer.measure:measure_two_layer"),
    resources:
        mem_mb=scale_with_attempt(2000),
        runtime=scale_with_attempt(60),
    params:
        *reads("studies.two_layer.measure:measure_two_layer", "setting", "pictured"),
    shell:
        "rarefeat run studies.two_layer.measure:measure_two_layer {wildcards.study}"
        " --cell {wildcards.cell:q} --seeds {wildcards.seeds} --output {output:q} > {log:q} 2>&1"
