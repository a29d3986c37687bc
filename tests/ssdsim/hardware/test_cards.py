"""Cards: checked where they are made, copied without a check, complained of by their first mistake."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from ssdsim.base.card import Card
from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware, load_transformer
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import HardwareProfile
from tests.refusals import refused


def test_a_call_checks_and_takes_the_floats_of_numpy() -> None:
    link = LinkModel(source="bench", latency_s=np.float64(1e-6), bandwidth=1)
    assert type(link.latency_s) is type(link.bandwidth) is float
    for wrong in ("1e-6", True, float("nan"), float("inf"), -1.0):
        with refused("latency_s", error=ValueError):
            LinkModel(source="bench", latency_s=wrong, bandwidth=1.0)  # type: ignore[arg-type]


def test_a_copy_is_not_checked_but_for_its_names() -> None:
    link = LinkModel(source="bench", latency_s=1e-6, bandwidth=1.0)
    assert link.changed(bandwidth=2.0) == LinkModel(source="bench", latency_s=1e-6, bandwidth=2.0)
    with pytest.raises(AttributeError, match="has no field 'bandwith'"):
        link.changed(bandwith=2.0)


class _Ring(Card, tag_field="kind", tag="ring"):
    links: int


class _Tree(Card, tag_field="kind", tag="tree"):
    levels: float


class _Nodes(Card):
    shape: _Ring | _Tree


def test_a_tagged_card_keeps_its_tag() -> None:
    nodes = _Nodes(shape=_Tree(levels=2.0))
    assert nodes.as_dict() == {"shape": {"kind": "tree", "levels": 2.0}}
    assert nodes.as_json() == '{"shape":{"kind":"tree","levels":2.0}}'
    assert as_record(_Nodes, nodes.as_dict(), "memory", "nodes") == nodes


@pytest.mark.parametrize(
    ("text", "number"),
    [(".5", 0.5), ("5.", 5.0), (" 5 ", 5.0), ("1e3", 1000.0), ("+5", 5.0), ("1_000", 1000.0), ("007", 7.0)],
)
def test_a_written_number_is_one_as_python_reads_it(text: str, number: float) -> None:
    assert as_record(float, text, "f", "cell", written=True) == number
    assert as_record(_Nodes, {"shape": {"kind": "tree", "levels": text}}, "f", "row", written=True) == _Nodes(
        shape=_Tree(levels=number)
    )


@pytest.mark.parametrize(("text", "number"), [("+5", 5), ("1_000", 1000), ("5.0", 5), (" 7 ", 7)])
def test_a_written_integer_may_end_with_zeros(text: str, number: int) -> None:
    assert as_record(dict[int, int], {"1": text}, "f", "cells", written=True) == {1: number}


@pytest.mark.parametrize("text", ["5.", "1e3", "5.5", "null", "", "inf"])
def test_other_text_is_no_integer(text: str) -> None:
    with refused("cell"):
        as_record(int | None, text, "f", "cell", written=True)  # type: ignore[arg-type]


def test_a_changed_card_survives_pickling() -> None:
    link = LinkModel(source="bench", latency_s=1e-6, bandwidth=1.0).changed(latency_s=-1.0)
    assert pickle.loads(pickle.dumps(link)) == link


def test_a_card_survives_json_and_pickling() -> None:
    profile = find_hardware("v100-sxm2-32gb")
    assert as_record(HardwareProfile, profile.as_dict(without_none=True), "memory", "profile") == profile
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert "e16" not in find_hardware("b200-sxm").as_json(indent=1)


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("attention", "float16", "roofline", "launch_s"), -1.0, "must be at least 0, got -1.0"),
        (("attention", "float16", "rooflin"), {}, "unknown key 'rooflin'; did you mean 'roofline'?"),
        (("collectives", "all_reduce", "x"), {}, "must be a whole number"),
        (("gemm", "float16", "segments"), [], "must have at least 1 item, not 0"),
    ],
)
def test_the_first_mistake_is_found_at_any_depth(keys: tuple[str, ...], value: object, said: str) -> None:
    data = find_hardware("v100-sxm2-32gb").as_dict(without_none=True)
    place = data
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(InputError) as refused:
        as_record(HardwareProfile, data, "a.json", "profile")
    at = keys[:-1] if said.startswith("unknown") else keys
    assert str(refused.value).startswith(f"a.json: {'.'.join(at)}: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"links": 2}, "lacks kind"),
        ({"kind": 3}, "kind must be 'ring' or 'tree', got 3"),
        (5, "must be an object, got 5"),
        ({"kind": "ring"}, ": lacks links"),
    ],
)
def test_a_wrong_tag_is_told_of_with_those_that_there_are(shape: object, said: str) -> None:
    with pytest.raises(InputError) as error:
        as_record(_Nodes, {"shape": shape}, "memory", "nodes")
    assert str(error.value).endswith(said)


def test_all_that_a_card_lacks_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nhidden_size = 64\nlayers = 2\nheads = 4\n')
    lacks = "architecture, kv_heads, head_dim, intermediate_size, vocab_size, max_context, source"
    with refused(f"mine.toml: card: lacks {lacks}"):
        load_transformer(path)


def test_a_tuple_of_too_many_items_is_told_of_before_its_items() -> None:
    with pytest.raises(InputError, match="must have at most 2 items, not 3"):
        as_record(tuple[int, float], [None, 1.0, 2.0], "memory", "pair")
