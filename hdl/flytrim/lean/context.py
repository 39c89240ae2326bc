# SPDX-License-Identifier: Apache-2.0
"""What travels inside the two ends of a lean link."""

from amaranth.lib import data

from ..context import MetaRecord
from . import container as c

__all__ = ["LENGTH_BITS", "PREFIX_WORDS", "WORDS_BITS", "Announced", "Beat", "Extract", "Head",
           "Item", "LeanContext", "Template", "ToFrame", "Useful", "WriteContext", "WriteTemplate"]

#: Bits of a payload's length, and of words of a container.
LENGTH_BITS, WORDS_BITS = 13, 14
#: Words of a full record before its payload.
PREFIX_WORDS = c.MAX_PREFIX // c.WORD


class Template(data.Struct):
    """What a bare record leaves out: opcode, the byte of bits of a full one, bytes of payload."""

    opcode: 8
    solicited: 1
    ack_request: 1
    ecn: 2
    migreq: 1
    pad_count: 2
    message_bytes: LENGTH_BITS


class LeanContext(data.Struct):
    """What the control plane stores for a flow that is framed.

    ``message_bytes`` 0 makes no bare records. ``flush`` is the cycles after which a container that
    is open is closed, 0 at once. The route tag is there where ``routed``. MAC addresses count over
    Ethernet; they are plain integers.
    """

    lean_id: 16
    template: Template
    flush: 32
    routed: 1
    source: 12
    destination: 12
    hop_limit: 8
    dst_mac: 48
    src_mac: 48


class WriteContext(data.Struct):
    """A flow is given a context, and its sequence numbers begin anew; or it is taken out."""

    flow: 6
    enable: 1
    context: LeanContext


class ToFrame(data.Struct):
    """A record on its way into a container.

    ``prefix`` is the words before its payload, of which ``prefix_words`` count; ``size`` all its
    words. A record that is to be dropped has its payload taken and nothing else done.
    """

    record: MetaRecord
    context: LeanContext
    drop: 1
    full: 1
    has_payload: 1
    prefix: data.ArrayLayout(32, PREFIX_WORDS)
    prefix_words: 3
    size: WORDS_BITS


class Head(data.Struct):
    """What the first bytes of a container are made of; ``hop_limit`` and so on where ``routed``."""

    lean_id: 16
    psn: 24
    sequence: 16
    full: 1
    routed: 1
    source: 12
    destination: 12
    hop_limit: 8
    dst_mac: 48
    src_mac: 48


class Item(data.StructLayout):
    """Up to a beat of a record, words from lane 0 on; words beyond ``count`` are zero.

    Members
    -------
    data, count : words, 1 at least
    opens : a container begins here, with ``head``; what was open is closed
    ends : the record ends here
    """

    def __init__(self, config):
        super().__init__({
            "data": config.width, "count": range(config.words + 1), "opens": 1, "ends": 1,
            "head": Head,
        })


class Beat(data.StructLayout):
    """A beat of a container's records; words beyond ``count`` are zero.

    Members
    -------
    data, count : words, 1 at least
    first : the container begins here, with ``head``
    last : it ends here, with ``records`` in ``size`` words
    """

    def __init__(self, config):
        super().__init__({
            "data": config.width, "count": range(config.words + 1), "first": 1, "last": 1,
            "head": Head, "records": 16, "size": WORDS_BITS,
        })


class WriteTemplate(data.Struct):
    """A flow is given the template of what is restored, and its sequence numbers begin anew; or it
    is taken out. ``flow`` is the number in tags and in metadata records.
    """

    flow: 6
    enable: 1
    template: Template


class Announced(data.Struct):
    """A good container, told when all of it is there: ``words`` of records."""

    flow: 6
    psn: 24
    full: 1
    routed: 1
    records: 16
    words: WORDS_BITS
    template: Template


class Useful(data.StructLayout):
    """A beat of a container that has words of records.

    Members
    -------
    data : of them, and of what stands around them
    first, last : the container's first such beat, its last
    start : where the first record begins; where ``first``
    container : the container
    """

    def __init__(self, config):
        super().__init__({"data": config.width, "first": 1, "last": 1,
                          "start": range(config.words), "container": Announced})


class Extract(data.StructLayout):
    """What a cycle takes out of two beats of a container.

    Members
    -------
    pair, start : the beats, and the first word that is taken
    prefix, before : words of a full record's headers, and how many of these came before
    count : bytes of payload behind them
    ends : the record ends here
    container, psn : whose record it is
    """

    def __init__(self, config):
        super().__init__({
            "pair": 2 * config.width, "start": range(config.words),
            "prefix": 3, "before": 3, "count": range(config.lanes + 1), "ends": 1,
            "container": Announced, "psn": 24,
        })
