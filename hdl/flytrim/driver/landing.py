# SPDX-License-Identifier: Apache-2.0
"""What hardware is told of where the messages of a flow land."""

__all__ = ["landing_fields"]

#: Payload of a packet that is not the last of its message, by its code from 0 on.
MTUS = (256, 512, 1024, 2048, 4096)
#: Packets of a message up to which they are counted by the reciprocal.
FEW, RECIPROCAL_BITS = 256, 17


def landing_fields(landing):
    """The fields of a :class:`flytrim.reassembly.records.Landing`.

    Parameters
    ----------
    landing : flytrim.model.Landing
    """
    multipath = landing.order == "multipath"
    return {
        "enable": 1,
        **{name: getattr(landing, name)
           for name in ("responses", "start_psn", "base", "bytes", "address")},
        "stride": landing.step if multipath else landing.stride,
        "multipath": int(multipath),
        "paths": _paths(landing) if multipath else {},
    }


def _paths(landing):
    packets = landing.packets
    return {
        "last": landing.window - 1,
        "mtu": MTUS.index(landing.path_mtu),
        "packets": packets,
        "tail_bytes": landing.message_bytes - (packets - 1) * landing.path_mtu,
        "message_bytes": landing.message_bytes,
        "reciprocal": -(-(1 << RECIPROCAL_BITS) // packets) if packets <= FEW else 0,
        # Messages of no byte are all at the start.
        "ring": landing.places * landing.step or (1 << 32) - 1,
    }
