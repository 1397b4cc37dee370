"""What of Shi's dissertation is exact and small: closed forms beside what is computed without them, a module for each."""
