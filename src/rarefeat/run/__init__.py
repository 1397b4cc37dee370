"""What a run and its jobs use: command lines, jobs, code hashes, origins of files, the folder of results. Tools: `manage`."""
