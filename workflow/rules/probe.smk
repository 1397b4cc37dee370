# What the frozen encoder of one cell is worth.
rule probe:
    input:
        latents=f"{RESULTS}/latents/{{study}}/eps_min={{eps_min}}/seeds={{block}}.safetensors",
        encoder=encoder_of,
        code=code("probe"),
    output:
        f"{RESULTS}/probes/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/probe/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/probe/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.tsv"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        draws=draws_of,
        simulator=simulator_of,
        data=of_study("data"),
        training=of_study("training"),
        arm=arm_of,
        encoder=lambda wildcards, input: (
            f"--encoder '{input.encoder}'" if input.encoder else ""
        ),
    shell:
        "python -m rarefeat.probe --study {params.draws:q} --simulator {params.simulator} --data {params.data:q}"
        " --training {params.training:q} --arm {params.arm:q} --eps-min {wildcards.eps_min} --sigma {wildcards.sigma} --seeds {wildcards.block}"
        " --latents {input.latents:q} {params.encoder} --output {output:q}"
        " 2>&1 | tee {log:q}"
