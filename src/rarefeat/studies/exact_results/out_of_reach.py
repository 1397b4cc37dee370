"""What of the dissertation is not run here, and what it would cost: operations counted from the sizes that it prints."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from rarefeat.run.job import Job
from rarefeat.storage.schema import ordered
from rarefeat.studies.exact_results.config import Machine
from rarefeat.studies.exact_results.tables import OUT_OF_REACH

# Operations of one forward pass: twice the multiplications and additions of the networks' own papers.
RESNET18_32, RESNET18_64, RESNET50_224 = 1.1e9, 4.4e9, 8.2e9
VIT_S_224, VIT_B_224, SWIN_T_224, VIT_L_224, BERT_TOKEN = 9.2e9, 3.5e10, 9.0e9, 1.6e11, 1.7e8
CIFAR, CINIC, SVHN, GTSRB, IMAGENET32, IMAGENET, EMNIST, FACES = 5e4, 9e4, 7.3e4, 3.9e4, 5e5, 1.28e6, 7e5, 7e4
"""Training images."""
IMAGES_7 = 4 * CINIC + 3 * SVHN + 2 * GTSRB + IMAGENET32 + 4 * EMNIST + 4 * 6e4 + 4 * FACES
"""Of the three incremental rows of pre-training sets of section 7.3.1, about."""
LLAMAS = 3e9 + 7e9 + 1.3e10 + 7e10
LONG = 8e9 + 1.2e10 + 3.8e9
"""Parameters of the models of chapter 5, and of chapter 9."""


def training(forward: float, samples: float) -> float:
    """A step costs about three forward passes a sample."""
    return 3 * forward * samples


def reading(parameters: float, tokens: float) -> float:
    """A language model costs about two operations a parameter and token, and attention over long prompts more."""
    return 2 * parameters * tokens


class Experiment(NamedTuple):
    """One that is not run."""

    experiment: str
    what: str
    source: str
    needs: str
    operations: float
    assumed: str = ""


DOWNLOAD = "a data set to download"
IMAGE_GPU = "data sets to download, and a GPU"
PRETRAINED = "data sets and pre-trained networks to download, and a GPU"
LLM = "pre-trained language models, text to download, and GPUs with their memory"
EXPERIMENTS = (
    Experiment(
        "2-8, CIFAR10 and SVHN",
        "clusters of neurons, airplane/automobile and 0/1",
        "Figures A.14, A.15",
        DOWNLOAD,
        training(2 * 3072 * 50, 2e4 * 100),
        "100 epochs",
    ),
    Experiment(
        "2-9",
        "clusters of filters, ResNet(128) and (256), binary CIFAR10, 20 epochs",
        "Table A.7, Figures A.16, A.17",
        IMAGE_GPU,
        training(RESNET18_32 * (4 + 16), 1e4 * 20),
    ),
    Experiment(
        "2-10, 2-13, 2-14",
        "teacher and student on MNIST and Gaussian inputs",
        "Figures 2.4a, A.18a, A.21, A.22",
        DOWNLOAD,
        training(2 * 784 * 500, 6e4 * 50 * 60),
        "50 epochs of 60 networks of up to 500 neurons",
    ),
    Experiment(
        "2-11",
        "teacher and student on CIFAR10, SVHN and Gaussian inputs",
        "Figures 2.4b, 2.4c, A.18, A.20",
        IMAGE_GPU,
        training(RESNET18_32 * (9 / 64) ** 2, (CIFAR + SVHN) * 2 * 100 * 10),
        "100 epochs, ten runs each",
    ),
    Experiment(
        "2-12",
        "the same with Tiny ImageNet inputs",
        "Figure A.19",
        IMAGE_GPU,
        training(RESNET18_32 * (9 / 64) ** 2, (CIFAR + SVHN) * 2 * 100),
        "100 epochs",
    ),
    Experiment(
        "4-1",
        "addition of k = 4 inputs modulo 47, 2944 neurons",
        "Figures 4.1, 4.2",
        "a GPU for days",
        training(2 * 2944 * (4 + 47), 47**4 / 2 * 1000),
        "1000 epochs; the text says at most three days on one A100",
    ),
    Experiment(
        "4-2",
        "k = 3 modulo 97, 1536 neurons",
        "Figures C.1, C.2",
        "a GPU for hours",
        training(2 * 1536 * (3 + 97), 97**3 / 2 * 1000),
        "1000 epochs",
    ),
    Experiment(
        "4-3",
        "k = 5 modulo 23, 5632 neurons",
        "Figures C.3, C.4",
        "a GPU for days",
        training(2 * 5632 * (5 + 23), 23**5 / 2 * 1000),
        "1000 epochs",
    ),
    Experiment(
        "4-4",
        "one-layer transformers with 160 heads, (k, p) = (4, 31), (3, 61), (5, 17)",
        "Figures 4.3, C.5, C.6",
        "a GPU for days",
        training(2 * 6 * 4 * 160 * 128**2, (31**4 + 61**3 + 17**5) / 2 * 300),
        "300 epochs, heads of 128 dimensions each",
    ),
    Experiment(
        "4-5",
        "grokking of two-layer transformers, k = 2, 3, 4, 5",
        "Figure 4.4",
        "a GPU for days",
        training(2 * 2 * 5 * 4 * 160 * 128**2, (97**2 + 31**3 + 11**4 + 5**5) / 2 * 3000 * 3),
        "3000 epochs, three seeds",
    ),
    Experiment(
        "5-1, 5-2",
        "flipped labels in context, Llama of 3B to 70B, chat and base",
        "Figures 5.1, 5.2",
        LLM,
        2 * reading(LLAMAS, 500 * 1000 * 5 * 5 * 6),
        "prompts of 500 tokens, six shares of flipped labels",
    ),
    Experiment(
        "5-3",
        "attention to an irrelevant sentence, Llama2 13B and 70B",
        "Figure 5.3",
        LLM,
        reading(8.3e10, 100 * 5 * 500),
        "prompts of 500 tokens, five settings",
    ),
    Experiment(
        "6-2, 6-3",
        "nuclear norm on five data sets of DomainBed, with ERM, Mixup, SWAD",
        "Tables 6.1, 6.2, E.1-E.5",
        PRETRAINED,
        training(RESNET50_224, 32 * 4 * 5000 * 23 * 3 * 6 * 5),
        "23 held-out domains, five tries of the penalty",
    ),
    Experiment(
        "6-4",
        "rank and accuracy over the penalty",
        "Figure 6.5",
        PRETRAINED,
        training(RESNET50_224, 32 * 4 * 5000 * 10 * 7 * 3),
        "seven penalties on two data sets",
    ),
    Experiment(
        "6-5",
        "CORAL, MIRO and the nuclear norm with SWAD",
        "Tables 6.3, E.6",
        PRETRAINED,
        training(RESNET50_224, 32 * 4 * 5000 * 23 * 3 * 3),
    ),
    Experiment(
        "7-1",
        "trade-off of universality and labels, three methods, three tasks",
        "Figures 7.1, 7.3, F.2, F.9-F.13",
        IMAGE_GPU,
        training(2 * RESNET18_32, IMAGES_7 * 800 * 3 * 2),
    ),
    Experiment(
        "7-2",
        "the trade-off on ImageNet-Bird",
        "Figure 7.4",
        IMAGE_GPU,
        training(2 * VIT_S_224 + 2 * RESNET50_224, IMAGENET * 2 * 300),
        "300 epochs; the growing sets together twice ImageNet",
    ),
    Experiment(
        "7-3",
        "UniCL on ImageNet and GCC-15M, 500 epochs",
        "Tables F.1, F.4",
        IMAGE_GPU,
        training(SWIN_T_224, (2 * IMAGENET + 1.5e7) * 500),
    ),
    Experiment(
        "7-4",
        "alignment of kernels between pre-training sets",
        "Figures 7.5, F.3",
        "the networks of 7-1",
        RESNET18_32 * 24 * 1e4,
        "ten thousand images",
    ),
    Experiment(
        "7-5",
        "the same over weight decay",
        "Figure F.4",
        IMAGE_GPU,
        training(2 * RESNET18_32, IMAGES_7 / 3 * 800 * 4),
        "four values",
    ),
    Experiment(
        "7-6",
        "sizes of pre-training and label sets, Bird, Vehicle, ImageNet",
        "Tables F.2-F.4",
        IMAGE_GPU,
        training(2 * VIT_S_224, IMAGENET * 1.2 * 300),
        "300 epochs",
    ),
    Experiment(
        "7-7",
        "classes of ImageNet32 at a fixed size",
        "Figure F.5",
        IMAGE_GPU,
        training(2 * RESNET18_32, 2e5 * 5 * 800),
    ),
    Experiment(
        "7-8",
        "share of relevant data",
        "Figure F.6",
        IMAGE_GPU,
        training(2 * RESNET18_32, CINIC * 3 * 800),
    ),
    Experiment(
        "7-9",
        "CIFAR-10 instead of CINIC-10",
        "Figure F.7",
        IMAGE_GPU,
        training(2 * RESNET18_32, (4 * CIFAR + 3 * SVHN + 2 * GTSRB + IMAGENET32) * 800),
    ),
    Experiment(
        "7-10, 7-12",
        "probe, fine-tuning and contrastive regularisation",
        "Tables 7.1, F.5, F.9, Figure F.8",
        "the networks of 7-1, data sets to download, and a GPU",
        training(3 * RESNET18_32, CIFAR * 1.36 * 200 * 4 * 3 * 3),
        "three seeds",
    ),
    Experiment(
        "7-11",
        "the same on CLIP, MoCo v3 and SimCSE",
        "Tables 7.2, F.6-F.8",
        PRETRAINED,
        VIT_L_224 * (IMAGENET + SVHN + GTSRB) * 100
        + VIT_B_224 * (CIFAR + SVHN + GTSRB) * 100
        + training(BERT_TOKEN, 512 * (2.5e4 + 1.2e5) * 3 * 9),
    ),
    Experiment(
        "7-13",
        "contrastive regularisation closes the gap",
        "Tables F.10, F.11",
        "the networks of 7-6, and a GPU",
        training(2 * VIT_S_224, 2 * 7.6e4 * 100),
        "100 epochs",
    ),
    Experiment(
        "9-1, 9-3, 9-5, 9-6",
        "needle in a haystack, LLaMA 3.1, Mistral Nemo, Phi 3.5",
        "Figures 9.4, 9.5, G.2-G.4",
        LLM,
        reading(LONG, 6e4 * 10 * 10 * 6),
        "ten lengths up to 120 thousand tokens, ten depths, six methods",
    ),
    Experiment(
        "9-2",
        "LongBench",
        "Table 9.1",
        LLM,
        reading(LONG, 4750 * 1e4 * 10),
        "ten thousand tokens a prompt, ten methods",
    ),
    Experiment(
        "9-4",
        "choice of the filter layer",
        "Table 9.2, Figure G.1",
        LLM,
        reading(8e9, 4750 * 1e4 * 8),
        "ten thousand tokens a prompt",
    ),
    Experiment("9-7", "pictures of selected tokens", "Figures 9.1, 9.2, G.5-G.7", LLM, reading(LONG, 1.1e5 * 5)),
    Experiment(
        "9-8",
        "chat template",
        "Table G.1",
        LLM,
        reading(1.2e10, 1200 * 1e4 * 4),
        "1200 prompts of ten thousand tokens, four methods",
    ),
    Experiment(
        "9-9",
        "time and memory",
        "Figures 9.3, 9.6",
        "the GPUs whose time and memory it is about",
        reading(LONG, 1e5 * 5 * 6),
        "six lengths, five methods",
    ),
)


def costs(machine: Machine) -> pd.DataFrame:
    """A row for each, with hours on two cores and on one GPU."""
    found = pd.DataFrame(EXPERIMENTS)
    for column, speed in (("hours_cores", machine.cores), ("hours_gpu", machine.gpu)):
        found[column] = found["operations"] / speed / 3600
    return ordered(OUT_OF_REACH, found)


def out_of_reach(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """What each would cost on the machine of the config."""
    return costs(job.part("machine", Machine))
