"""Tables of the toy study."""

from rarefeat.chain.tables import SEED
from rarefeat.storage.schema import SHARE, at_least, column, schema

ACCURACY = schema(
    "{study}_accuracy",
    "a row per (samples, seed)",
    {"samples": column("int64", at_least(2), unit="samples", description="what was learned from")}
    | SEED
    | {"accuracy": column(float, SHARE, unit="1", description="share of fresh samples whose label is found")},
    unique=["samples", "seed"],
)
