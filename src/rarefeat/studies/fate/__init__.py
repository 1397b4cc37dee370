"""What the study of the fate over time consists of."""
