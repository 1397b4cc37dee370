"""The workflow: config, jobs, files, and the declarations of studies."""
