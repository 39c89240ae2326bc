# SPDX-License-Identifier: Apache-2.0
"""Configurations: what can be chosen, and what is said of the rest."""

import pytest

from flytrim import config
from flytrim.config import NicConfig, SwitchConfig
from flytrim.fp32.element import ElementType
from flytrim.fp32.tree import SUMS


def test_a_switch_derives_its_ports_and_slots():
    switch = SwitchConfig(width=256, groups=12, window=64, slot_bytes=512, max_frame=2000,
                          counters=False, commit=7)
    assert switch.port == NicConfig(width=256, flows=12, max_frame=2000, counters=False, commit=7)
    assert (switch.lanes, switch.slots, switch.slot_beats) == (32, 128, 16)


def test_names_are_those_of_the_arithmetic():
    assert {each.name.lower() for each in ElementType} == set(config.TYPES)
    assert config.SUMS == SUMS


@pytest.mark.parametrize(("choice", "fault"), [
    ({"ports": 1}, "ports must be 2 to 16, not 1"),
    ({"ports": 17}, "ports must be 2 to 16, not 17"),
    ({"width": 96}, "width must be one of 64, 128, 256, 512, 1024 bits, not 96"),
    ({"groups": 0}, "groups must be 1 to 64, not 0"),
    ({"groups": 128}, "groups must be 1 to 64, not 128"),
    ({"window": 1}, "window must be a power of two from 2 to 4096 packets, not 1"),
    ({"window": 96}, "window must be a power of two from 2 to 4096 packets, not 96"),
    ({"window": 8192}, "window must be a power of two from 2 to 4096 packets, not 8192"),
    ({"slot_bytes": 1000}, "slot_bytes must be a power of two from 64 to 8192 bytes, not 1000"),
    ({"slot_bytes": 32}, "slot_bytes must be a power of two from 64 to 8192 bytes, not 32"),
    ({"slot_bytes": 64, "width": 1024}, "slot_bytes must be a beat of 128 bytes at least, not 64"),
    ({"max_frame": 9217}, "max_frame must be 1514 to 9216 bytes, not 9217"),
    ({"types": ()}, "types must be some of fp32, int32, bf16, fp16, each once, not ()"),
    ({"types": ("fp64",)},
     "types must be some of fp32, int32, bf16, fp16, each once, not ('fp64',)"),
    ({"types": ("fp32", "fp32")},
     "types must be some of fp32, int32, bf16, fp16, each once, not ('fp32', 'fp32')"),
    ({"sum": "kahan"}, "sum must be one of tree, fused, exact, not 'kahan'"),
    ({"latency": 0}, "latency must be a number of cycles, not 0"),
    ({"commit": 1 << 32}, "commit must have 32 bits at most, not be 4294967296"),
])
def test_what_cannot_be_built_is_refused(choice, fault):
    with pytest.raises(ValueError) as error:
        SwitchConfig(**choice)
    assert str(error.value) == fault
