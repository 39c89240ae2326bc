# SPDX-License-Identifier: Apache-2.0
"""The headers before a payload as bytes, from what a record says; combinational."""

from amaranth import Cat, Const, Mux, Signal, Value

from . import headers as h
from .icrc import SEED, masked_bits
from .logic import select

__all__ = ["BASE_WORDS", "EXTENSIONS", "HeaderStack"]

#: Extension headers that are written, in order, and the opcodes that have them: of a message of one
#: packet, SEND and WRITE, and of an acknowledgement. What else is sent has none.
EXTENSIONS = {}
for _opcode in h.OPCODES.values():
    if (_opcode.place is h.Place.ONLY and _opcode.extensions
            and {*_opcode.extensions} <= {h.RETH, h.DETH, h.IMMDT}
            or _opcode.place is None and _opcode.extensions == (h.AETH,)):
        EXTENSIONS.setdefault(_opcode.extensions, []).append(_opcode.code)
_EXTENSION_BYTES = max(sum(header.size for header in chain) for chain in EXTENSIONS)
#: Four bytes each from the third byte of a frame on to the BTH's end, over IPv4 without a tag.
BASE_WORDS = (h.ETHERNET.size - 2 + h.IPV4.size + h.UDP.size + h.BTH.size) // 4


class HeaderStack:
    """Ethernet to the last extension header of one frame, with and without a tag, for either IP.

    The IPv4 checksum is left zero. Bytes are values of 8 bits, the first on the wire first; those
    behind the last header are zero.

    Parameters
    ----------
    m : Module
    record : Encapsulation
        What to write.
    udp_words, ip_words : Value
        Length of the UDP and of the IPv4 datagram, four bytes each.
    chains : sequence of Value
        One bit for each of :data:`EXTENSIONS`: these headers follow the BTH. Of 8 bits each, one
        for each part of the :attr:`size` bytes of extension headers, :func:`flytrim.logic.Copies`.
    """

    #: Bytes of the longest stack.
    size = (h.ETHERNET.size + h.VLAN.size + h.IPV6.size + h.UDP.size + h.BTH.size
            + _EXTENSION_BYTES)
    #: Bits of extension headers.
    extension_bits = 8 * _EXTENSION_BYTES

    def __init__(self, m, record, udp_words, ip_words, chains):
        self._template = header = record.header
        ecn = Mux(record.ce, 3, header.ecn)
        length = Cat(Const(0, 2), udp_words)
        self.ipv4 = _wire(
            h.IPV4, version=4, ihl=5, dscp=header.dscp, ecn=ecn,
            total_length=Cat(Const(0, 2), ip_words), dont_fragment=1, ttl=header.ttl,
            protocol=h.IP_UDP, src=header.src[:32], dst=header.dst[:32])
        self._ipv6 = _wire(
            h.IPV6, version=6, dscp=header.dscp, ecn=ecn, flow_label=header.flow_label,
            payload_length=length, next_header=h.IP_UDP, hop_limit=header.ttl, src=header.src,
            dst=header.dst)
        self._transport = [
            *_wire(h.UDP, sport=header.sport, dport=header.dport, length=length),
            *_wire(h.BTH, opcode=header.opcode, migreq=1, pad_count=(-record.length)[:2],
                   pkey=header.pkey, dest_qp=header.qpn, psn=record.psn),
            *self._extension(m, record, chains)]

    @staticmethod
    def _extension(m, record, chains):
        header = record.header
        bytes_ = {
            h.RETH: _wire(h.RETH, address=record.address, rkey=header.rkey,
                          dma_length=record.length),
            h.DETH: _wire(h.DETH, qkey=header.rkey, src_qp=header.src_qp),
            h.IMMDT: _wire(h.IMMDT, immediate=record.immediate),
            h.AETH: _wire(h.AETH, syndrome=record.immediate[24:], msn=record.immediate[:24]),
        }
        each = [sum((bytes_[part] for part in chain), []) for chain in EXTENSIONS]
        for n in range(_EXTENSION_BYTES):
            byte = Signal(8, name=f"extension_{n}")
            m.d.comb += byte.eq(select((chains.of(8 * n)[number], chain[n])
                                       for number, chain in enumerate(each) if n < len(chain)))
            yield byte

    def wire(self, tagged, ipv6):
        """The bytes as they are sent."""
        header = self._template
        ethertype = h.TYPE_IPV6 if ipv6 else h.TYPE_IPV4
        link = _wire(h.ETHERNET, dst=header.dst_mac, src=header.src_mac,
                     ethertype=h.TPIDS[0] if tagged else ethertype)
        if tagged:
            tci = header.tci
            link += _wire(h.VLAN, pcp=tci[13:], dei=tci[12], vid=tci[:12], ethertype=ethertype)
        return self._filled(link + (self._ipv6 if ipv6 else self.ipv4) + self._transport)

    def masked(self, tagged, ipv6):
        """The bytes as the CRC takes them, see :class:`flytrim.icrc_generator.IcrcGenerator`."""
        start, ip = h.L3_OFFSETS[tagged], h.IPV6 if ipv6 else h.IPV4
        bytes_ = self.wire(tagged, ipv6)
        bytes_[:start] = [Const(0, 8)] * start
        for offset, mask in masked_bits(ip).items():
            bytes_[start + offset] |= mask
        for offset in range(4):
            bytes_[start + offset] ^= SEED >> 8 * offset & 0xFF
        return bytes_

    @staticmethod
    def differs():
        """Which bytes are masked in any of the stacks."""
        return {n for start, ip in ((start, ip) for start in h.L3_OFFSETS[:2]
                                    for ip in (h.IPV4, h.IPV6))
                for n in (*range(start + 4), *(start + offset for offset in masked_bits(ip)))}

    def _filled(self, bytes_):
        return bytes_ + [Const(0, 8)] * (self.size - len(bytes_))


def _wire(header, **values):
    """The bytes of a header; fields without a value are zero, short values are extended."""
    fields = []
    for name, field in header.fields.items():
        value = values.get(name, 0)
        value = Const(value, field.width) if isinstance(value, int) else Value.cast(value)
        assert len(value) <= field.width, f"{field.name} has {field.width} bits"
        fields.append(Cat(value, Const(0, field.width - len(value))))
    number = Cat(reversed(fields))
    return [number[bit:bit + 8] for bit in reversed(range(0, len(number), 8))]
