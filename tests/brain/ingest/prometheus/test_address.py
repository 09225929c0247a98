import pytest

from convoy.brain.ingest.prometheus.address import Address
from convoy.brain.settings import BrainSettings
from convoy.core.api.errors import InvalidSetting

SECRET = "hunter2"


def address(**settings):
    return Address.of(BrainSettings.load(**settings))


def test_user_and_password_are_shown_to_prometheus_and_to_nobody_else():
    at = address(prometheus_url=f"https://me:{SECRET}@metrics.example:9090/prom/")
    assert at.url == "https://metrics.example:9090/prom"
    assert SECRET not in repr(at)
    assert "me" not in at.url.partition("metrics")[0]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not set; expected http://HOST:9090"),
        ("prometheus:9090", "isn't the URL of a server"),
        ("ftp://prometheus", "isn't the URL of a server"),
        ("http://", "isn't the URL of a server"),
        (f"http://me:{SECRET}@/x", "isn't the URL of a server"),
        (f"http://me:{SECRET}@host:port", "can't be read as a URL"),
        (f"http://me:{SECRET}@host:70000", "can't be read as a URL"),
        (f"http://me:{SECRET}@[::1", "can't be read as a URL"),
        (f"http://me:p/{SECRET}@host:9090", "can't be read as a URL"),
        ("http://host/graph?g0.expr=up", "has something after its path"),
        (f"http://me:{SECRET}@host/#top", "has something after its path"),
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url, said):
    with pytest.raises(InvalidSetting) as refused:
        address(prometheus_url=url)
    assert str(refused.value).startswith("prometheus_url: ")
    assert said in str(refused.value)
    assert "CONVOY_PROMETHEUS_URL" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("token", [f"{SECRET}\nX-Admin: yes", f"{SECRET} x", f"{SECRET}ü"])
def test_a_token_that_no_header_can_hold_is_refused_without_being_shown(token):
    with pytest.raises(InvalidSetting, match="prometheus_token: holds a space or a character") as refused:
        address(prometheus_url="http://host", prometheus_token=token)
    assert SECRET not in str(refused.value)


def test_a_token_beside_a_user_is_refused():
    with pytest.raises(InvalidSetting, match="prometheus_token: set beside a user"):
        address(prometheus_url="http://me:you@host", prometheus_token=SECRET)


def test_an_authoritys_file_has_to_be_there_and_to_be_of_use(home):
    nothing, foreign = home / "nothing.pem", home / "foreign.pem"
    foreign.write_text("no certificate")
    with pytest.raises(InvalidSetting, match=r"nothing\.pem: No such file"):
        address(prometheus_url="https://host", prometheus_ca_file=nothing)
    with pytest.raises(InvalidSetting, match=r"foreign\.pem: .*name a PEM file with CONVOY_PROMETHEUS_CA_FILE"):
        address(prometheus_url="https://host", prometheus_ca_file=foreign)
    with pytest.raises(InvalidSetting, match="of no use, as prometheus_url begins with http://"):
        address(prometheus_url="http://host", prometheus_ca_file=nothing)
