"""Contents of the files of the contrastive encoder."""

from file_schemas import FileEntry, FileSchema, columns
from rarefeat.stages.tables import GRID, TRAJECTORIES

TITLE = "The contrastive encoder"
AXES = {
    "S": "replicas, the seeds of the block in order",
    "N": "latent training pairs, `data.N`",
    "2": "the two views of a pair (Assumption 3.4)",
    "L": "tokens of a sample",
    "d": "features; the rare ones are the last",
    "m": "neurons",
    "p": "coordinates of a weight: `d1` under the simulator direct; under reduced `d` of the"
    " features, then those of a factor"
    " of the Gram matrix of the rest ([reduced.md](../method/reduced.md))",
    "R": "recorded steps: 0, 1, 2, ..., log-spaced up to T (`model/recorded_steps.py`); 0 unless"
    " `training.history` is true",
    "E": "the ends of stages 1 and 2: 2, or 0 without a history",
    "colour": "`data.views.colour`, the rank of a dense nuisance; 0 without one",
}
CELL = "eps_min={eps_min}/sigma={sigma}/seeds={block}"
KEYS = ("eps_min", "sigma")
USES = {"probe": "pairs that the linear head is fitted on", "test": "test pairs"}

LATENTS = FileSchema(
    "latents/{study}/eps_min={eps_min}/seeds={block}.safetensors",
    "stages.synthesise",
    "Latent signals z of the pairs, each entry -1, 0 or 1. They serve every sigma and arm;"
    " dictionaries and noise are drawn"
    " again from their keys wherever they are needed. In `matched` every feature is as frequent as"
    " in training, in `balanced` the"
    " rare ones are as frequent as the others.",
    (
        FileEntry("train", "int8", "training pairs", ("S", "N", "2", "L", "d")),
        *(
            FileEntry(
                f"{use}_{name}", "int8", f"{name} {what}", ("S", f"{use}_pairs", "2", "L", "d")
            )
            for use, what in USES.items()
            for name in ("balanced", "matched")
        ),
    ),
)
ENCODERS = FileSchema(
    f"encoders/{{study}}/{CELL}.safetensors",
    "stages.pretrain",
    "Encoders of every trained arm of a cell, by the label of the arm: its name with every key"
    " that is not the default, as in"
    " `pruned_neuron-alpha=0.1`.",
    (
        FileEntry("{arm}/weights", "float32", "w_i after the last step", ("S", "m", "p")),
        FileEntry("{arm}/bias", "float32", "b_i", ("S", "m")),
        FileEntry("{arm}/T1", "int64", "step that ended stage 1; -1 for none", ("S",)),
        FileEntry(
            "{arm}/T2",
            "int64",
            "step that ended stage 2: a neuron has grown d-fold in norm^2 since T1; -1 for none,"
            " or without a history",
            ("S",),
        ),
        FileEntry(
            "{arm}/history",
            "float32",
            "neurons at the recorded steps. Along the last axis: <w_i, M_j> of the d features;"
            " <w_i, u> of the nuisance's directions u, if"
            " any; ||w_i||; b_i",
            ("S", "R", "m", "d + colour + 2"),
        ),
        FileEntry(
            "{arm}/ends",
            "float32",
            "neurons at T1 and at T2, with the last axis of the history; NaN where T1 or T2 is not"
            " reached",
            ("S", "E", "m", "d + colour + 2"),
        ),
        FileEntry(
            "{arm}/query_key",
            "float32",
            "W_Q and W_K after the last step; only where `training.attention` is not fixed",
            ("S", "2", "d1", "d1"),
        ),
        FileEntry(
            "{arm}/loss",
            "float32",
            "InfoNCE of the last step's batch without a mask, nat; infinite for a replica that has"
            " diverged",
            ("S",),
        ),
    ),
)
PROBES = FileSchema(
    f"probes/{{study}}/{CELL}.parquet",
    "stages.probe",
    "A row for each seed and arm of a cell, from which `{study}_grid` is made.",
    columns(GRID),
)
COURSES = FileSchema(
    f"trajectories/{{study}}/{CELL}.parquet",
    "stages.pretrain",
    "A row for each seed, arm, recorded step and metric of a cell, from which"
    " `{study}_trajectories` is made.",
    columns(TRAJECTORIES, but=KEYS),
)
FILES = (LATENTS, ENCODERS, COURSES, PROBES)
