"""Includes workflow/Snakefile, where the workflow catalogue expects the workflow."""


include: "workflow/Snakefile"


# The default target of an included file does not count.
workflow.default_target = "all"
