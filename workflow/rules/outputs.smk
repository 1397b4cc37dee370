# Rules of stages, tables and targets that follow from declarations.


def make_stage_rule(stage):
    """Make the rule of a stage from its declaration."""

    rule:
        name:
            stage.name
        input:
            [
                f"<results>/{folder}/{{study}}/{{cell}}/seeds={{seeds}}.{suffix}"
                for upstream in stage.upstream
                for folder, suffix in upstream.folders.items()
            ],
        output:
            [
                f"<results>/{folder}/{{study}}/{{cell}}/seeds={{seeds}}.{suffix}"
                for folder, suffix in stage.folders.items()
            ],
        log:
            f"<results>/logs/{stage.name}/{{study}}/{{cell}}/seeds={{seeds}}.log",
        wildcard_constraints:
            study=any_of(PROJECT.studies_of(stage)),
        resources:
            mem_mb=scale_with_attempt(2000),
            runtime=scale_with_attempt(60),
        params:
            *told(stage_job(stage)),
            function=stage.function,
            place=place_of,
        shell:
            RUN_STAGE


def make_group_rule(name, group):
    """Make the rule of tables that are made at once, with one job."""

    rule:
        name:
            name
        input:
            cells=cell_files(group[0]),
            tables=source_tables(group[0]),
        output:
            tables(group),
        log:
            f"<results>/logs/tables/{name}.log",
        resources:
            mem_mb=scale_with_attempt(4000),
            runtime=scale_with_attempt(20),
        params:
            *told(lambda wildcards: PROJECT.table_job(group[0])),
            function=PROJECT.tables[group[0]].function,
            name=group[0],
        shell:
            RUN_TABLES


def make_target(name, paths):
    """Make the rule of a target."""
    if rules.has(name):
        raise WorkflowError(f"config: {name}: a study and a rule have this name; rename the study")

    rule:
        name:
            name
        input:
            [f"<results>/{path}" for path in paths],


rule tabulate:
    """Make a table from the files of cells and from other tables."""
    input:
        cells=cell_files(),
        tables=source_tables(),
    output:
        "<results>/tables/{table}.parquet",
    log:
        "<results>/logs/tables/{table}.log",
    wildcard_constraints:
        table=any_of(PROJECT.tables_by_rule["tabulate"]),
    resources:
        mem_mb=scale_with_attempt(4000),
        runtime=scale_with_attempt(20),
    params:
        *told(lambda wildcards: PROJECT.table_job(wildcards.table)),
        function=lambda wildcards: PROJECT.tables[wildcards.table].function,
    shell:
        "rarefeat run {params.function} {wildcards.table} --output {output:q} > {log:q} 2>&1"
