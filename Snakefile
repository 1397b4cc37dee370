"""The entry: `snakemake --cores N` in this folder."""


include: "workflow/Snakefile"


rule default:
    """Make what `all` makes: an included file sets no default."""
    default_target: True
    input:
        rules.all.input,
