# SPDX-License-Identifier: Apache-2.0
"""Pages of registers behind one AXI4-Lite port, each with a slave of its own."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .axis import AxiLite, Response
from .logic import select

__all__ = ["PAGE_WIDTH", "AxilPages"]

#: Bits of a byte address within a page of 4 KiB.
PAGE_WIDTH = 12


class AxilPages(wiring.Component):
    """An AXI4-Lite slave whose upper address bits choose who answers.

    One write and one read are in flight at a time, each independent of the other. Everything that
    leaves comes from a register: a request takes three cycles to its page and a response one back.
    An address beyond the last page answers DECERR and reaches nobody.

    A page answers each request once; a page that never does holds only its kind of access, until
    reset. Reset forgets what is in flight, here and in the pages.

    Parameters
    ----------
    pages : int

    Members
    -------
    bus : AXI4-Lite slave
    pages : AXI4-Lite master of each page
    """

    def __init__(self, pages):
        self._pages = pages
        super().__init__({
            "bus": In(AxiLite(PAGE_WIDTH + ceil_log2(pages))),
            "pages": Out(AxiLite(PAGE_WIDTH)).array(pages),
        })

    def elaborate(self, platform):
        m = Module()
        self._pass(m, "aw", ("aw", "w"), "b", ("resp",))
        self._pass(m, "ar", ("ar",), "r", ("data", "resp"))
        return m

    def _pass(self, m, address, requests, response, results):
        """One kind of access: its requests, of which one has the address, and its response."""
        bus = self.bus
        held, taken = {}, []
        for channel in requests:
            payload = {name: getattr(bus, f"{channel}{name}") for name in _PAYLOADS[channel]}
            held[channel] = {name: Signal.like(value, name=f"held_{channel}{name}")
                             for name, value in payload.items()}
            has = Signal(name=f"has_{channel}")
            ready = getattr(bus, f"{channel}ready")
            m.d.comb += ready.eq(~has)
            with m.If(getattr(bus, f"{channel}valid") & ready):
                m.d.sync += has.eq(1)
                m.d.sync += [held[channel][name].eq(value) for name, value in payload.items()]
            taken.append(has)

        # Who is asked, one-hot; whether it was; the request is over when its response has left.
        number = held[address]["addr"][PAGE_WIDTH:]
        chosen = Signal(self._pages, name=f"{response}_chosen")
        knows, asked = Signal(name=f"{response}_knows"), Signal(name=f"{response}_asked")
        valid, ready = getattr(bus, f"{response}valid"), getattr(bus, f"{response}ready")
        m.d.sync += [
            chosen.eq(Cat(number == n for n in range(self._pages))),
            knows.eq(Cat(taken).all()),
        ]
        answers = [getattr(page, f"{response}valid") & getattr(page, f"{response}ready")
                   for page in self.pages]
        nobody = Signal(name=f"{response}_nobody")
        m.d.comb += nobody.eq(knows & ~asked & ~chosen.any())
        with m.If(knows & ~asked):
            m.d.sync += asked.eq(1)
        for n, page in enumerate(self.pages):
            m.d.comb += getattr(page, f"{response}ready").eq(asked & chosen[n] & ~valid)
            for channel in requests:
                offered = getattr(page, f"{channel}valid")
                with m.If(knows & ~asked & chosen[n]):
                    m.d.sync += offered.eq(1)
                with m.Elif(getattr(page, f"{channel}ready")):
                    m.d.sync += offered.eq(0)
                m.d.comb += [getattr(page, f"{channel}{name}").eq(value)
                             for name, value in held[channel].items()]

        answered = Cat(answers).any()
        with m.If(answered | nobody):
            m.d.sync += valid.eq(1)
            for name in results:
                value = select((answer, getattr(page, f"{response}{name}"))
                               for answer, page in zip(answers, self.pages, strict=True))
                if name == "resp":
                    value = value | nobody.replicate(2) & Response.DECERR
                m.d.sync += getattr(bus, f"{response}{name}").eq(value)
        with m.If(valid & ready):
            m.d.sync += [valid.eq(0), asked.eq(0), knows.eq(0)]
            m.d.sync += [has.eq(0) for has in taken]


#: What goes along with each channel's request.
_PAYLOADS = {"aw": ("addr", "prot"), "w": ("data", "strb"), "ar": ("addr", "prot")}
