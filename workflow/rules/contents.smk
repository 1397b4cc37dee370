# What the files of a user's images hold, as jobs are told it.

import functools

from rarefeat.config.images import ImageData
from rarefeat.images.input_hashes import image_hashes, list_hashes

WITH_IMAGES = {
    name: study
    for name, study in STUDIES.items()
    if isinstance(getattr(study, "data", None), ImageData)
}


@functools.cache
def contents(name):
    """The digest of the files that the images of a study are read from, as they are when a run is planned."""
    return refused(image_hashes, STUDIES[name], RESULTS, name)


@functools.cache
def lists(name, block):
    """Those of what else a block reads of the user's."""
    return refused(list_hashes, STUDIES[name], STUDIES[name].blocks()[block])


def told_of_images(stage):
    """A params function, as that of `told`, of a job that is told what the user's files hold as well."""
    return told(
        stage,
        lambda name, block: contents(name) | (lists(name, block) if block else {}),
    )
