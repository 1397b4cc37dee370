# One point of the grid, with all its arms: study x eps_min x sigma x block of seeds. The arms see the same tokens, so that one job
# makes these once. One thread, so that the bytes are the same everywhere on one machine; parallelism is over jobs.
rule pretrain:
    input:
        latents=f"{RESULTS}/latents/{{study}}/eps_min={{eps_min}}/seeds={{block}}.safetensors",
        code=code("pretrain"),
    output:
        encoders=f"{RESULTS}/encoders/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.safetensors",
        trajectories=f"{RESULTS}/trajectories/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/pretrain/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pretrain/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/seeds={{block}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(1500),
        runtime=growing(20),
    params:
        draws=draws_of,
        simulator=simulator_of,
        data=of_study("data"),
        training=of_study("training"),
        arms=lambda wildcards: arms(point_of(wildcards).trained),
    shell:
        "python -m rarefeat.pretrain --study {params.draws:q} --simulator {params.simulator} --data {params.data:q}"
        " --training {params.training:q} --arms {params.arms:q} --sigma {wildcards.sigma} --seeds {wildcards.block} --latents {input.latents:q}"
        " --encoders {output.encoders:q} --trajectories {output.trajectories:q}"
        " 2>&1 | tee {log:q}"
