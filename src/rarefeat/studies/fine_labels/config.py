"""Sections of the config that the trainings on hierarchical samples read.

Definitions, equations and appendices are those of hong_fine_grained_labels.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rarefeat.workflow.config.section import Distinct, Section

Share = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Pair = Literal["views", "subclass", "superclass"]


class EasyData(Section):
    """Easy samples: two superclasses of k subclasses each, P patches in R^d (Def. 4.1, B.1)."""

    d: int = Field(ge=6, description="dimension d of a patch")
    k: int = Field(ge=1, description="subclasses k_+ = k_- of a superclass")
    P: int = Field(ge=2, description="patches P of a sample")
    s_star: float = Field(
        gt=0, description="expected patches s* of the common feature, and of the subclass's"
    )
    iota: float = Field(ge=0, lt=0.5, description="alpha^2 is uniform in [1 - iota, 1 + iota]")
    sigma_zeta: float = Field(ge=0, description="standard deviation of a patch's noise, by entry")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.features > self.d:
            raise ValueError(
                f"d must be at least 2 + 2 k = {self.features} for orthonormal features,"
                f" got {self.d}"
            )
        if 2 * self.s_star > self.P:
            raise ValueError(
                f"s_star must be at most P / 2 = {self.P / 2:g}, as either feature takes s* of the"
                f" P patches, got {self.s_star:g}"
            )
        return self

    @property
    def features(self) -> int:
        """Number of features: v_+, v_- and those of the subclasses, 2 + 2 k."""
        return 2 + 2 * self.k

    def at(self, **changes: float) -> Self:
        """Return the data with other values of some keys."""
        return type(self)(**self.model_dump() | changes)


class HierarchicalData(EasyData):
    """Easy samples, and the hard samples of Definition 4.2."""

    s_dag: float = Field(ge=0, description="expected distracting patches s_dag of a hard sample")
    alpha_dag: list[Size] = Field(
        min_length=2, max_length=2, description="bounds of their amplitude, which is uniform"
    )
    sigma_zeta_star: float = Field(
        ge=0, description="standard deviation of the loud noise patch zeta* of a hard sample"
    )

    @model_validator(mode="after")
    def _fits_hard(self) -> Self:
        if self.s_dag + self.s_star > self.P:
            raise ValueError(f"s_dag must be at most P - s_star = {self.P - self.s_star:g}")
        if self.alpha_dag[0] > self.alpha_dag[1]:
            raise ValueError(f"alpha_dag must be [lower, upper], got {self.alpha_dag}")
        return self

    @property
    def easy(self) -> EasyData:
        """Data without the hard samples, as training sees it."""
        return EasyData(**self.model_dump(include=set(EasyData.model_fields)))


class Detectors(Section):
    """Numbers of neurons of a class, and of training steps."""

    m: int = Field(ge=1, description="neurons m of a class")
    threshold: float = Field(gt=0, description="-b(0) / sigma_0, the paper's c_b sqrt(log d)")
    T: int = Field(ge=1, description="training steps T")


class Learner(Section):
    """A group of ReLU detectors for each class, summed by its head (section 4.2, B.2)."""

    sigma_0: float = Field(gt=0, description="standard deviation sigma_0 of the initial weights")
    eta: float = Field(gt=0, description="learning rate eta")
    kappa_b: float = Field(
        gt=1, description="eq. (18): b falls by ||w(t+1) - w(t)|| / kappa_b, log^5 d in the paper"
    )
    N: int = Field(ge=2, description="samples N of a batch, fresh at every step")


class Labels(Section):
    """A kind of labels in training; `ids` classes of a superclass."""

    kind: Literal["subclass", "random", "misaligned", "sample"] = Field(
        description="subclass: unions or random parts of the subclasses; random: ids drawn for"
        " every sample of a superclass; misaligned: the same classes in both superclasses; sample:"
        " every sample its own class, with one batch for all steps"
    )
    ids: int = Field(
        default=1,
        ge=1,
        description="classes of a superclass; of misaligned, all classes; unused for sample",
    )

    @classmethod
    def named(cls, label: str) -> Self:
        """Return the labels of a name in files and tables."""
        kind, _, ids = label.partition("-")
        return cls(kind=kind, ids=int(ids or 1))

    @property
    def label(self) -> str:
        """Name in files and tables."""
        return self.kind if self.kind == "sample" else f"{self.kind}-{self.ids}"

    def check(self, k: int) -> None:
        """Check that k subclasses can have these labels; ValueError if not."""
        several = self.kind == "subclass" and self.ids % k == 0
        if self.kind in ("subclass", "misaligned") and k % self.ids and not several:
            raise ValueError(
                f"labels.ids must divide k = {k} for {self.kind} labels, or of subclass labels be"
                f" a multiple of it, got {self.ids}"
            )

    def classes(self, k: int, N: int) -> int:
        """Return the number G of classes, for k subclasses and N samples."""
        self.check(k)
        return {"sample": N, "misaligned": self.ids}.get(self.kind, 2 * self.ids)


COARSE = Labels(kind="subclass", ids=1)


def fine(k: int) -> Labels:
    """Return the labels of Theorem 5.2: every subclass is a class."""
    return Labels(kind="subclass", ids=k)


class Noise(Section):
    """Samples of many or loud patches, whose sum has more noise than signal (B.2, remark 3)."""

    P: int = Field(ge=2, description="patches P of a sample")
    sigma_zeta: float = Field(ge=0, description="standard deviation of a patch's noise, by entry")
    samples: int = Field(
        ge=2, description="samples that a linear head on patch sums is fitted on; as many test it"
    )
    tests: int = Field(ge=2, description="test samples of the network, patch by patch")


class LinearHeadSettings(Section):
    """Linear heads on frozen networks."""

    samples: int = Field(ge=2, description="samples that a head is fitted on")
    ridge: Distinct[Size] = Field(min_length=1, description="penalties of the heads")
    hard_share: Distinct[Share] = Field(
        min_length=1, description="fractions of hard samples that a head is fitted on"
    )


class ContrastiveSettings(Section):
    """The contrastive encoder of imbalance_and_pruning, eq. (1)-(5): patches, no attention."""

    m: int = Field(ge=1, description="number of neurons m")
    K: int = Field(ge=2, description="batch size K; the other K - 1 partners are the negatives")
    tau: float = Field(gt=0, description="temperature tau")
    eta: float = Field(gt=0, description="learning rate eta")
    lambda_: float = Field(ge=0, alias="lambda", description="l2 regularisation lambda")
    sigma_0: float = Field(gt=0, description="standard deviation sigma_0 of the initial weights")
    T: int = Field(ge=1, description="training steps T")
    bias_from: int = Field(ge=0, description="first step with a bias, for the arms that have one")


class CrossingArm(Section):
    """An arm of the contrastive encoder."""

    arm: Literal["dense", "pruned_neuron", "oracle_gated"] = Field(
        description="mask of the logits, as in the studies of the chain; subclass features are the"
        " minority"
    )
    alpha: float = Field(
        default=0.0, ge=0, lt=1, description="pruning ratio alpha of pruned_neuron"
    )
    bias: float = Field(
        default=0.0, ge=0, description="bias in units of sqrt(2 log d / d) ||w_i||; 0 for none"
    )

    @model_validator(mode="after")
    def _ratio(self) -> Self:
        if (self.alpha > 0) != (self.arm == "pruned_neuron"):
            raise ValueError(
                "alpha must be greater than 0 for pruned_neuron; remove it for all other arms"
            )
        return self

    @property
    def label(self) -> str:
        """Name in tables."""
        keys = {"alpha": self.alpha, "bias": self.bias}
        return "-".join([self.arm, *(f"{key}={value:g}" for key, value in keys.items() if value)])
