"""Without a token a server listens on this machine alone."""

import pytest

from convoy.core.api.errors import InvalidSetting
from convoy.core.rpc.exposure import refuse_exposed


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_this_machine_alone_needs_no_token(host: str) -> None:
    refuse_exposed(host, "host", "", "token", "TOKEN")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.4", "", "node-1", "[::]"])
def test_others_need_one(host: str) -> None:
    refuse_exposed(host, "host", "secret", "token", "TOKEN")
    with pytest.raises(InvalidSetting, match="set TOKEN to a secret, or host to 127"):
        refuse_exposed(host, "host", "", "token", "TOKEN")
