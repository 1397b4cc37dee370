"""How stages run: command lines, jobs, what they depend on, where results come from, the folder of results."""
