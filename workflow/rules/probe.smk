# What the frozen encoders of one point are worth.
rule probe:
    input:
        latents=f"{RESULTS}/latents/{{study}}/eps_min={{eps_min}}/seeds={{block}}.safetensors",
        encoders=encoders_of,
        code=code("probe"),
    output:
        f"{RESULTS}/probes/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/probe/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(1500),
        runtime=growing(10),
    params:
        draws=draws_of,
        simulator=simulator_of,
        data=of_study("data"),
        training=of_study("training"),
        arms=lambda wildcards: arms(point_of(wildcards).arms),
        encoders=lambda wildcards, input: (
            f"--encoders '{input.encoders}'" if input.encoders else ""
        ),
    shell:
        "python -m rarefeat.probe --study {params.draws:q} --simulator {params.simulator} --data {params.data:q}"
        " --training {params.training:q} --arms {params.arms:q} --eps-min {wildcards.eps_min} --sigma {wildcards.sigma} --seeds {wildcards.block}"
        " --latents {input.latents:q} {params.encoders} --output {output:q}"
        " 2>&1 | tee {log:q}"
