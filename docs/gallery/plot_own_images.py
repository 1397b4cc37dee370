"""
Images of your own
==================

A folder with a subfolder for each class is listed for a study that trains on it. Here
scikit-learn's digits are the files.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image
from sklearn.datasets import load_digits

from rarefeat.images.list_files import split

digits, folder = load_digits(), Path(tempfile.mkdtemp())
for i, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
    path = folder / f"digit {label}" / f"{i:04}.png"
    path.parent.mkdir(exist_ok=True)
    Image.fromarray((pixels * 255 / 16).round().astype("uint8")).save(path)

# %%
# Each fifth image of a class is a test image. `rarefeat images FOLDER` writes these lists as files.
names, subsets, _ = split(folder, every=5)
figure, (left, right) = plt.subplots(1, 2, figsize=(6, 2.5), layout="constrained")
for subset, classes in subsets.items():
    left.plot(names, [len(paths) for paths in classes.values()], "o", label=subset)
left.set(ylabel="images", ylim=(0, None))
left.tick_params(axis="x", rotation=90)
left.legend()
right.imshow(Image.open(next((folder / "digit 3").iterdir())), cmap="gray")
right.axis("off")

# %%
# All classes have about as many images: the study makes them long-tailed, by its key `rho`.
