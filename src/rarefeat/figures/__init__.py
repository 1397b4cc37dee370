"""How figures look and how they are saved."""
