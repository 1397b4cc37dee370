"""Schema of the table of small theorems."""

import pandera.pandas as pa

from rarefeat.workflow.files.schema import (
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

QUANTITIES = {
    "invariant_features": metric_descriptions(
        loss="contrastive loss with l(t) = -t of a random representation of norm B, over sampled"
        " triples; stated: minus the variance of its mean given z_R (7.5)",
        loss_tied="the same where a spurious bit depends on an invariant one in x and x^-",
        pca_overlap="mean squared cosine between the span of the linear representation that"
        " minimises that loss and the PCA of E[x | z_R]; stated: 1",
        raw_overlap="the same of the PCA of x",
        spurious="mean squared distance over 4 B^2 that other spurious bits make in the optimum of"
        " the logistic loss; stated: 0",
        spurious_shared="the same where a positive pair shares its spurious bits",
        encoded="mean squared distance over 4 B^2 that a flip of invariant bit `at` makes in that"
        " optimum; bit 1 is the most spread-out",
    ),
    "parity_in_context": metric_descriptions(
        larger_loss="largest hinge loss of a task of Theorem 5.5.1's larger model; stated: 0",
        fewer_loss="the same without one pair of its negative heads",
        least_norm="least squared norm found without any loss, over that of the larger model;"
        " stated: 1",
        smaller_important="largest hinge loss of the smaller model on an important task; stated: 0",
        ranked_loss="loss over all tasks of four heads that rank the features; stated: that of the"
        " smaller model",
        smaller_noise="E|P_D1(Xi)|^2 / E|P_D2(Xi)|^2; stated: (nu_1 + 1) / (nu_2 + 1)",
        ranked_noise="the same with the four heads that rank the features in the place of D1",
        smaller_accuracy="accuracy of the smaller model on important tasks, M examples",
        larger_accuracy="that of the larger model, on the same prompts",
        ranked_accuracy="that of the four heads that rank the features",
        smaller_accuracy_rest="accuracy of the smaller model on the other tasks",
        larger_accuracy_rest="that of the larger model, on the same prompts",
        ranked_accuracy_rest="that of the four heads that rank the features",
    ),
    "gradient_features": metric_descriptions(
        cosine_start="largest cosine of an initial neuron to the feature that is met worst",
        cosine_first="the same after the first step; stated: 1",
        error="error on fresh samples after the last step; stated: 0",
        loss="hinge loss there",
        error_frozen="error of the least squares on the initial neurons",
        stated_loss="hinge loss of the network g* of Lemmas 3.17 and 3.21; stated: 0",
    ),
    "input_structure": metric_descriptions(
        digits_isotropic="share of fresh digits that the student puts where the teacher does, after"
        " training on as many isotropic Gaussian inputs",
        digits_isotropic_course="its mean over recorded steps",
        gaussians_isotropic="that share of fresh Gaussian inputs",
        gaussians_isotropic_course="its mean over recorded steps",
        digits_matched="as `digits_isotropic`, with Gaussian inputs of the digits' covariance",
        digits_matched_course="its mean over recorded steps",
        gaussians_matched="as `gaussians_isotropic`, with inputs of the digits' covariance",
        gaussians_matched_course="its mean over recorded steps",
        teacher_isotropic="accuracy of the teacher on fresh digits",
        teacher_matched="that of the teacher regularised on the matched inputs",
        common_isotropic="share of Gaussian inputs in the teacher's most frequent class",
        common_matched="that of the matched inputs",
    ),
    "first_stages": metric_descriptions(
        T1="first recorded step at which (41) holds; stated: T1 by eq. (34) of the pruning paper",
        growth="least (|<w_i, M_j>| at T1 - (1 + eps_j C_z log d) |<w_i, M_j>| at 0) / |w_i| over"
        " neurons and features, eq. (4); stated: -1/d",
        outside="largest growth to T1 of the norm of w_i off the features, over |w_i|, eq. (5)",
        along="least growth to T1 of the norm of w_i along the features, over |w_i|",
        lucky="mean |<w_i, M_j>| / |w_i| of lucky neurons at T2, eq. (6)",
        lucky_start="the same before training",
        outside_2="as `outside`, from T1 to T2, eq. (7)",
    ),
}
NAMES = list(dict.fromkeys(name for meanings in QUANTITIES.values() for name in meanings))


THEOREM_NUMBERS = schema(
    "theorem_numbers",
    "a row per (result, point, seed, at, quantity)",
    {
        "result": column(
            str, pa.Check.isin(list(QUANTITIES)), unit="", description="the theorems' module"
        ),
        "point": column(
            str,
            None,
            unit="",
            description="norm B, features d, law of the data, eps_min or hidden units m",
        ),
        "seed": column("int64", at_least(0), unit="", description="seed of the replica"),
        "at": column(float, None, unit="", description="invariant bit; 0 where there is none"),
        "quantity": column(
            str,
            pa.Check.isin(NAMES),
            unit="",
            description="; ".join(
                f"**{result}**: {format_descriptions(meanings)}"
                for result, meanings in QUANTITIES.items()
            ),
        ),
        "value": column(
            float, None, unit="of the quantity", description="the number", nullable=True
        ),
        "stated": column(
            float,
            None,
            unit="of the quantity",
            description="what the text has of it: a closed form, or a bound",
            nullable=True,
        ),
    },
    unique=["result", "point", "seed", "at", "quantity"],
)
