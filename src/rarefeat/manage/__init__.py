"""Tools over a project and its results, which no job uses: what is still so, what is accepted, compared and kept."""
