"""What a run and its jobs use.

Command lines, jobs, code hashes, origins of files, the folder of results. Tools: `manage`.
"""
