"""What a run and its jobs use: command lines, jobs, digests, origins of files, the folder of results. Tools: `manage`."""
