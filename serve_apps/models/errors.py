"""Why a model could not be prepared.

PreparationError
├── Unreachable     the index or the hub does not answer: a retry helps once the network does
├── NotFound        it answers, and has no such thing
├── WrongChecksum   the file is not the one that models.yaml names
└── NoSpace         the disk is full, or would be
"""


class PreparationError(Exception):
    """One sentence: what is wrong and what to do."""


class Unreachable(PreparationError):
    pass


class NotFound(PreparationError):
    pass


class WrongChecksum(PreparationError):
    pass


class NoSpace(PreparationError):
    pass
