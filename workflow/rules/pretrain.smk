# One cell of the grid: study x eps_min x sigma x arm x block of seeds. One thread, so that the bytes are the same everywhere
# on one machine; parallelism is over jobs.
rule pretrain:
    input:
        latents=f"{RESULTS}/latents/{{study}}/eps_min={{eps_min}}/seeds={{block}}.safetensors",
        code=code("pretrain"),
    output:
        encoder=f"{RESULTS}/encoders/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.safetensors",
        trajectory=f"{RESULTS}/trajectories/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.parquet",
    log:
        f"{RESULTS}/logs/pretrain/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/pretrain/{{study}}/eps_min={{eps_min}}/sigma={{sigma}}/{{arm}}/seeds={{block}}.tsv"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        draws=draws_of,
        simulator=simulator_of,
        data=of_study("data"),
        training=of_study("training"),
        arm=arm_of,
    shell:
        "python -m rarefeat.pretrain --study {params.draws:q} --simulator {params.simulator} --data {params.data:q}"
        " --training {params.training:q} --arm {params.arm:q} --sigma {wildcards.sigma} --seeds {wildcards.block} --latents {input.latents:q}"
        " --encoder {output.encoder:q} --trajectory {output.trajectory:q}"
        " 2>&1 | tee {log:q}"
