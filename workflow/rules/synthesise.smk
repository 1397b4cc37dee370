# Latent signals of one eps_min and one block of seeds, for every sigma and every arm.
rule synthesise:
    input:
        code=code("synthesise"),
    output:
        f"{RESULTS}/latents/{{study}}/eps_min={{eps_min}}/seeds={{block}}.safetensors",
    log:
        f"{RESULTS}/logs/synthesise/{{study}}/eps_min={{eps_min}}/seeds={{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/synthesise/{{study}}/eps_min={{eps_min}}/seeds={{block}}.tsv"
    threads: 1
    resources:
        mem_mb=growing(1500),
        runtime=growing(5),
    params:
        draws=draws_of,
        data=of_study("data"),
    shell:
        "python -m rarefeat.synthesise --study {params.draws:q} --data {params.data:q}"
        " --eps-min {wildcards.eps_min} --seeds {wildcards.block} --output {output:q}"
        " 2>&1 | tee {log:q}"
