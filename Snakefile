"""rarefeat: a study is a chain synthesise -> pretrain -> probe -> aggregate -> plot, one rule file and one module each."""


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/synthesise.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/scaling.smk"
include: "workflow/rules/augmentation.smk"
include: "workflow/rules/images.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/plot.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        PRODUCTS,
        expand(f"{RESULTS}/pages/{{page}}.html", page=[*PAGES, *TEXTS, "run_times"]),
        f"{RESULTS}/provenance.json",
