from typing import TYPE_CHECKING

from farmiq.cli.terminal import own_name, say
from farmiq.cli.token_table import show_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farmiq.cloud.ingestion.edges import EdgeToken


def show(tokens: "Sequence[EdgeToken]") -> None:
    """Edges and their tokens as a person reads them."""
    if not tokens:
        say(f"No edge has been added. Add one with: {own_name()} edge add EDGE_ID --tenant TENANT")
        return
    show_tokens("edge", ((one.edge_cluster_id, one) for one in tokens))
