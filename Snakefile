"""The workflow is in workflow/Snakefile, where the workflow catalog and those who deploy it as a module look for it."""


include: "workflow/Snakefile"


# An included file does not say what is made by default.
workflow.default_target = "all"
