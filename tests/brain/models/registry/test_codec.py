"""Model files: what is written comes back bit for bit; what isn't ours, or was damaged, is refused unread."""

import io
import json
import pickle
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numbers
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import FunctionTransformer

from convoy.brain.models.registry import ModelFile, Schema, decode, encode
from convoy.brain.models.registry import document as json_document
from convoy.brain.models.registry.codec import FORMAT, digest
from convoy.brain.models.registry.estimators import from_tensor, to_tensor
from convoy.brain.models.state import State
from convoy.core.api.errors import ConvoyError, CorruptState, InvalidInput, StateError, UnknownSchema
from support.model_files import AT, FACTS

STATE = State(
    {"alpha": 0.1, "names": ["a", "ü"]}, {"weights": np.arange(6.0).reshape(2, 3), "flags": np.array([True])}
)
CONTENT = encode(ModelFile(FACTS, STATE))

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
KINDS = st.sampled_from(["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", ">f8", ">i4"])
TENSORS = st.dictionaries(
    st.text(min_size=1).filter(lambda name: name != "__metadata__"),
    KINDS.flatmap(lambda kind: numbers.arrays(kind, numbers.array_shapes(min_dims=0, min_side=0, max_side=4))),
    max_size=4,
)


def forged(text, tensors=None):
    """Return a file with any text in it, and a checksum that is right."""
    given = text if isinstance(text, str) else json.dumps({"sha256": "0" * 64, **text}, separators=(",", ":"))
    plain = safetensors.numpy.save(tensors or {}, {"convoy": given})
    return plain.replace(b"0" * 64, digest(plain).encode(), 1)


def body(**changes):
    return {"format": FORMAT, "facts": FACTS.document(), "document": {}} | changes


def refused(content, reason, **expected):
    with pytest.raises(StateError) as caught:
        decode(content, **expected)
    assert caught.value.reason == reason, caught.value
    return str(caught.value)


@given(st.dictionaries(st.text(), JSON, max_size=5), TENSORS)
@settings(max_examples=150, deadline=None)
def test_what_is_written_comes_back_bit_for_bit(document, tensors):
    content = encode(ModelFile(FACTS, State(document, tensors)))
    back = decode(content, name="throughput", schema_hash=FACTS.schema.hash)
    assert back.facts == FACTS
    assert json.dumps(back.state.document) == json.dumps(document)
    assert set(back.state.tensors) == set(tensors)
    for name, tensor in tensors.items():
        found = back.state.tensors[name]
        assert found.shape == tensor.shape
        assert found.dtype == tensor.dtype.newbyteorder("=")
        assert found.tobytes() == tensor.astype(tensor.dtype.newbyteorder("=")).tobytes()
        assert found.flags.writeable
    assert encode(back) == content


def test_a_tensor_that_is_a_view_is_written_as_it_looks():
    whole = np.arange(12.0).reshape(3, 4)
    back = decode(encode(ModelFile(FACTS, State({}, {"columns": whole[:, ::2], "turned": whole.T}))))
    assert np.array_equal(back.state.tensors["columns"], whole[:, ::2])
    assert np.array_equal(back.state.tensors["turned"], whole.T)


def test_any_tool_that_reads_safetensors_reads_the_tensors():
    assert np.array_equal(safetensors.numpy.load(CONTENT)["weights"], STATE.tensors["weights"])


def test_a_single_flipped_bit_anywhere_is_noticed():
    for place in range(len(CONTENT)):
        damaged = bytearray(CONTENT)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(CorruptState):
            decode(bytes(damaged))
    for place in (CONTENT.index(b"sha256") + 20, len(CONTENT) - 1):
        for bit in range(8):
            damaged = bytearray(CONTENT)
            damaged[place] ^= 1 << bit
            with pytest.raises(CorruptState):
                decode(bytes(damaged))


@given(st.integers(0, len(CONTENT) - 1))
def test_a_file_that_was_cut_is_refused(length):
    with pytest.raises(CorruptState):
        decode(CONTENT[:length])


@given(st.binary(max_size=300), st.integers(0, len(CONTENT)))
def test_strange_bytes_are_refused_and_nothing_else_happens(strange, place):
    with pytest.raises(ConvoyError):
        decode(strange)
    if strange:
        with pytest.raises(ConvoyError):
            decode(CONTENT[:place] + strange + CONTENT[place:])


class Bomb:
    """Whose unpickling is noticed."""

    exploded = False

    @staticmethod
    def explode():
        Bomb.exploded = True
        return Bomb()

    def __reduce__(self):
        return (Bomb.explode, ())


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_refused_and_never_unpickled(protocol):
    message = refused(pickle.dumps(Bomb(), protocol=protocol), "ModelFileForeign")
    assert "not one of Convoy's" in message
    assert not Bomb.exploded
    hidden = np.frombuffer(pickle.dumps(Bomb(), protocol=protocol), dtype=np.uint8)
    file = decode(encode(ModelFile(FACTS, State({}, {"estimator": hidden}))))
    with pytest.raises(CorruptState, match="not what skops writes"):
        from_tensor(file.state.tensors["estimator"], LinearRegression)
    assert not Bomb.exploded


def test_an_array_of_objects_is_refused_both_ways():
    with pytest.raises(InvalidInput, match="tensor 'x' is of object, expected one of bool"):
        encode(ModelFile(FACTS, State({}, {"x": np.array([Bomb()], dtype=object)})))
    with pytest.raises(InvalidInput, match="texts belong into the document"):
        encode(ModelFile(FACTS, State({}, {"x": np.array(["a"])})))
    assert not Bomb.exploded


def test_an_estimator_comes_back_and_predicts_bit_for_bit():
    inputs = np.random.default_rng(0).normal(size=(50, 3))
    fitted = LinearRegression().fit(inputs, inputs @ [1.0, 2.0, 3.0] + 0.1)
    file = decode(encode(ModelFile(FACTS, State({}, {"estimator": to_tensor(fitted)}))))
    back = from_tensor(file.state.tensors["estimator"], LinearRegression)
    assert np.array_equal(back.predict(inputs), fitted.predict(inputs))
    with pytest.raises(CorruptState, match="is a LinearRegression, expected FunctionTransformer"):
        from_tensor(file.state.tensors["estimator"], FunctionTransformer)


def test_an_estimator_with_a_type_that_nobody_trusts_is_refused_by_its_name():
    tensor = to_tensor(FunctionTransformer(func=json.dumps))
    with pytest.raises(CorruptState, match=r"holds json\.dumps, which nobody trusts") as caught:
        from_tensor(tensor, FunctionTransformer)
    assert caught.value.reason == "UntrustedType"
    assert from_tensor(tensor, FunctionTransformer, trusted=["json.dumps"]).func is json.dumps


def test_a_zip_that_would_unpack_to_more_than_memory_holds_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in range(9):
            archive.writestr(f"{part}.npy", bytes(64 * 2**20))
    assert len(packed.getvalue()) < 2**20
    with pytest.raises(CorruptState, match="are more than any has"):
        from_tensor(np.frombuffer(packed.getvalue(), dtype=np.uint8), LinearRegression)


def test_a_damaged_estimator_is_refused():
    tensor = to_tensor(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))
    for place in range(0, len(tensor), 7):
        damaged = tensor.copy()
        damaged[place] ^= 255
        try:
            back = from_tensor(damaged, LinearRegression)
        except CorruptState:
            continue
        assert isinstance(back, LinearRegression)  # a byte that the zip's reader doesn't look at


def test_another_version_of_the_format_is_refused_by_its_number():
    with pytest.raises(UnknownSchema, match="of format 2, and this version of Convoy reads 1; upgrade"):
        decode(forged(body(format=2)))


def test_another_models_file_and_other_columns_are_refused():
    assert "of model 'throughput', expected 'memory'" in refused(CONTENT, "OtherModel", name="memory")
    other = Schema.of([("job", "label"), ("workers", "number")])
    message = refused(CONTENT, "OtherColumns", name="throughput", schema_hash=other.hash)
    assert "fit it anew with `convoy brain fit`" in message


def test_the_schema_is_its_names_and_types_whatever_their_order():
    columns = [("job", "label"), ("workers", "count")]
    assert Schema.of(columns).hash == Schema.of(reversed(columns)).hash
    assert Schema.of(columns).hash != Schema.of([("job", "label")]).hash
    assert Schema.of(columns).hash != Schema.of([("job", "label"), ("workers", "number")]).hash


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"facts": None}, "ModelFileCorrupt"),
        ({"facts": FACTS.document() | {"rows": -1}}, "ModelFileCorrupt"),
        ({"facts": FACTS.document() | {"created_at": "2026-01-31"}}, "ModelFileCorrupt"),
        ({"facts": FACTS.document() | {"name": "../../etc"}}, "ModelFileCorrupt"),
        ({"facts": FACTS.document() | {"fitted_to": "short"}}, "ModelFileCorrupt"),
        ({"document": [1]}, "ModelFileCorrupt"),
        ({"format": None}, "ModelFormatUnknown"),
    ],
)
def test_a_file_that_is_whole_and_makes_no_sense_is_refused(changes, reason):
    refused(forged(body(**changes)), reason)


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 200 + "1" + "}" * 200,
        "[" + "[]," * 3_000_000 + "[]]",
        "1" * 10_000,
        "NaN",
        "1e999",
        '"\\ud800',
    ],
    ids=["deep", "deeper than any", "wide", "long number", "NaN", "infinity", "no JSON"],
)
def test_json_that_no_model_writes_is_refused(bomb):
    refused(forged('{"sha256":"' + "0" * 64 + '","format":1,"document":{"a":' + bomb + "}}"), "ModelFileCorrupt")


def test_a_tensor_of_a_type_that_no_model_has_is_refused():
    plain = forged(body(), {"x": np.array([1 + 1j], dtype=np.complex64)})
    assert "tensor 'x' is of 'C64'" in refused(plain, "ModelFileCorrupt")


def test_a_tensor_larger_than_its_file_is_refused():
    def grown(plain):
        """Return the file with the tensor's shape changed, in the same number of bytes."""
        return plain.replace(b'"shape":[2,3]', b'"shape":[9,9]')

    plain = grown(safetensors.numpy.save(STATE.tensors, {"convoy": json.dumps({"sha256": "0" * 64} | body())}))
    compact = grown(
        safetensors.numpy.save(
            STATE.tensors, {"convoy": json.dumps({"sha256": "0" * 64} | body(), separators=(",", ":"))}
        )
    )
    assert plain != compact
    assert "tensors can't be read" in refused(
        compact.replace(b"0" * 64, digest(compact).encode(), 1), "ModelFileCorrupt"
    )


def test_a_file_larger_than_any_is_refused_before_it_is_looked_at(monkeypatch):
    monkeypatch.setattr("convoy.brain.models.registry.codec.LARGEST", len(CONTENT) - 1)
    refused(CONTENT, "ModelFileTooLarge")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": {"b": float("nan")}}, r"model throughput\.a\.b: nan isn't a number"),
        ({"a": [1, (2, 3)]}, r"model throughput\.a\[1\]: tuple isn't JSON's"),
        ({"a": np.float64(1.0)}, r"model throughput\.a: float64 isn't JSON's"),
        ({"a": {1: "x"}}, r"model throughput\.a: key 1 is a int"),
    ],
)
def test_a_state_that_json_would_change_is_refused_by_its_place(document, words):
    with pytest.raises(InvalidInput, match=words.replace("model throughput", r"model throughput\.document")):
        encode(ModelFile(FACTS, State(document)))


def test_a_document_larger_than_a_file_holds_is_refused(monkeypatch):
    monkeypatch.setattr(json_document, "MOST_VALUES", 50)
    with pytest.raises(InvalidInput, match="keep numbers in tensors"):
        encode(ModelFile(FACTS, State({"a": list(range(100))})))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Throughput"),
        ("code_version", ""),
        ("schema", Schema(())),
        ("fitted_to", "x" * 64),
        ("rows", -1),
        ("seconds", float("nan")),
        ("created_at", datetime(2026, 1, 1)),
        ("trained_from", AT + timedelta(days=1)),
    ],
)
def test_facts_that_cannot_be_are_refused_by_their_name(field, value):
    with pytest.raises(InvalidInput, match=field):
        replace(FACTS, **{field: value})
