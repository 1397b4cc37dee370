"""Study of late learning: at which step of a longer training a rare feature is learned."""
