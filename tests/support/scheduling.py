"""Which tests stay together on one worker."""

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has no types

# Folders whose files share a farm: on two workers there would be two of it, and each takes a quarter of a core.
ONE_FARM = ("tests/e2e/console/", "tests/e2e/overview/")


class FarmScheduling(LoadFileScheduling):  # type: ignore[misc]  # as above
    """A file stays on one worker, so that the servers which it shares are started once; so does a folder with a farm."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in ONE_FARM if file.startswith(folder)), file)
