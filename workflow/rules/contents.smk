# What the files of a user's images hold, as jobs are told it.

import functools

from rarefeat.config.images import ImageData
from rarefeat.images.contents import known, of_images, of_lists, refuse_images

WITH_IMAGES = {
    name: study
    for name, study in STUDIES.items()
    if isinstance(getattr(study, "data", None), ImageData)
}


@functools.cache
def contents(name):
    """The digest of the files that the images of a study are read from, as they are when a run is planned."""
    refused(refuse_images, STUDIES[name].data)
    return refused(of_images, STUDIES[name], known(RESULTS, name))


@functools.cache
def lists(name, block):
    """Those of what else a block reads of the user's."""
    return refused(of_lists, STUDIES[name], STUDIES[name].blocks()[block])


def told_of_images(stage):
    """A params function, as that of `told`, of a job that is told what the user's files hold as well."""
    return told(
        stage,
        lambda name, block: contents(name) | (lists(name, block) if block else {}),
    )
