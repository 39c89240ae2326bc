# SPDX-License-Identifier: Apache-2.0
"""Registers of a running simulation: the socket, what goes through it, and its end."""

import contextlib
import os
import socket
import struct
from pathlib import Path

import pytest
from bar import CONFIG
from running import running

from flytrim.config import NicConfig
from flytrim.driver import (
    BusClosed,
    BusError,
    Device,
    DeviceError,
    DeviceGone,
    Registers,
    SocketBus,
)
from flytrim.errors import InputError
from flytrim.sim.build import build, device_verilog
from flytrim.sim.register_socket import RegisterSocket
from flytrim.sim.replay import Kind, Replay

WRITE, READ = 1, 2
OKAY, SLVERR, DECERR, NO_ANSWER = 0, 2, 3, 255
ID, CAPABILITY, SCRATCH = map(Registers().address, ("id", "capability", "scratch"))
MAGIC = Registers().reset("id")["magic"]


def request(kind, address, data=0):
    return struct.pack("<BxxxII", kind, address, data)


def answer(client):
    """(response, data) of the next answer, or None where the connection is closed."""
    got = b""
    while len(got) < 8:
        part = client.recv(8 - len(got))
        if not part:
            return None
        got += part
    return struct.unpack("<BxxxI", got)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "registers"


@pytest.fixture(scope="module")
def program():
    return build(CONFIG, device_verilog(CONFIG))


@pytest.fixture
def connect(path):
    """Connects to the simulation."""
    with contextlib.ExitStack() as clients:
        def connect():
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.settimeout(60)   # a fault, not a wait
            client.connect(str(path))
            return client
        yield connect


@pytest.mark.model
def test_each_client_gets_its_own_answers_in_order(program, path, connect):
    with running(program, path):
        first = connect()
        first.sendall(request(WRITE, SCRATCH, 0x1234) + request(READ, SCRATCH))
        assert [answer(first), answer(first)] == [(OKAY, 0x1234)] * 2
        clients = [first, *(connect() for _ in range(7))]
        registers = [ID, CAPABILITY, SCRATCH, 1 << 12, *range(0x100, 0x110, 4)]
        expected = [(OKAY, MAGIC), (OKAY, CONFIG.flows << 12 | CONFIG.width), (OKAY, 0x1234),
                    (DECERR, 0), *[(OKAY, 0)] * 4]
        for client, address in zip(clients, registers, strict=True):
            client.sendall(request(READ, address))
        for client, each in reversed([*zip(clients, expected, strict=True)]):
            assert answer(client) == each
        first.close()
        clients[1].sendall(request(READ, ID))
        assert answer(clients[1]) == (OKAY, MAGIC)
        late = connect()
        late.sendall(request(WRITE, ID))
        assert answer(late)[0] == SLVERR


@pytest.mark.model
def test_clients_take_turns(program, path, connect):
    clients = []

    def ask():
        clients.extend(connect() for _ in range(3))
        reader, writer, late = clients
        reader.sendall(request(READ, SCRATCH) * 100)
        writer.sendall(b"".join(request(WRITE, SCRATCH, n) for n in range(100)))
        late.sendall(request(READ, SCRATCH))

    with running(program, path, before=ask):
        reader, writer, late = clients
        assert [answer(writer) for _ in range(100)] == [(OKAY, n) for n in range(100)]
        read = [answer(reader) for _ in range(100)]
        assert all(response == OKAY and abs(value - n) <= 3
                   for n, (response, value) in enumerate(read))
        assert answer(late)[1] <= 3


@pytest.mark.model
def test_whoever_does_not_take_its_answers_is_left(program, path, connect):
    clients = []

    def ask():
        clients.extend(connect() for _ in range(2))
        clients[0].sendall(request(READ, ID) * 1000)

    with running(program, path, before=ask):
        greedy, quick = clients
        for _ in range(10):
            quick.sendall(request(READ, ID) * 100)
            assert [answer(quick) for _ in range(100)] == [(OKAY, MAGIC)] * 100
        got = []
        with contextlib.suppress(ConnectionResetError):     # not all was read
            while each := answer(greedy):
                got.append(each)
        assert 0 < len(got) < 1000
        assert set(got) == {(OKAY, MAGIC)}


@pytest.mark.model
def test_a_request_may_come_in_pieces_and_nonsense_ends_the_connection(program, path, connect):
    with running(program, path):
        slow, quick = connect(), connect()
        for byte in request(READ, ID):
            slow.sendall(bytes([byte]))
            quick.sendall(request(READ, SCRATCH))
            assert answer(quick) == (OKAY, 0)
        assert answer(slow) == (OKAY, MAGIC)
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", request(0, ID), request(3, ID)):
            client = connect()
            client.sendall(nonsense)
            with contextlib.suppress(ConnectionResetError):     # it was not read
                assert answer(client) is None
        # Who goes in the middle of a request, or before its answer, harms nobody.
        for part in (request(READ, ID)[:7], request(READ, ID), b""):
            client = connect()
            client.sendall(part)
            client.close()
            quick.sendall(request(READ, ID))
            assert answer(quick) == (OKAY, MAGIC)


@pytest.mark.model
def test_a_device_that_does_not_answer_is_told(path):
    verilog = Path(__file__).parents[1].joinpath("data", "faulty_nic.v").read_text()
    program = build(NicConfig(width=64, max_frame=1514), verilog)
    said = "axil: no answer to a read of 0x010"
    with running(program, path, faults=[said]), SocketBus(path) as bus:
        bus.write(0, 10)
        with pytest.raises(BusError, match="^read of 0x010: no answer$"):
            bus.read(0x10)


@pytest.mark.model
def test_the_driver_says_what_is_refused_and_when_the_simulation_is_over(program, path):
    with contextlib.ExitStack() as opened:
        with running(program, path):
            device = opened.enter_context(Device.open(path))
            bus = opened.enter_context(SocketBus(path))
            unserved = opened.enter_context(SocketBus(path))
            assert device.identity.width == CONFIG.width
            device.write("scratch", bits=0xCAFE)
            assert device.read("scratch") == {"bits": 0xCAFE}
            with pytest.raises(DeviceError, match="^register max_frame: is read-only"):
                device.write("max_frame")
            with pytest.raises(BusError, match="^write of 0x0 to 0x008: SLVERR$"):
                bus.write(8, 0)
            with pytest.raises(BusError, match="^read of 0x1000: DECERR$"):
                bus.read(0x1000)
            with pytest.raises(DeviceError, match=(
                    "registers: register id: read of 0x1000: DECERR")), Device.open(
                        path, offset=0x1000):
                pass
        assert not os.path.exists(path)
        for access in (lambda: device.read("scratch"), lambda: device.write("scratch", bits=0)):
            with pytest.raises(DeviceGone, match="^register scratch: the simulation is over$"):
                access()
        for one in (bus, unserved):
            with pytest.raises(BusClosed, match="^the simulation is over$"):
                one.read(ID)
        bus.close()
        with pytest.raises(BusClosed, match="^the connection is closed$"):
            bus.read(ID)
    with pytest.raises(InputError, match="registers: no simulation answers there: No such file"):
        SocketBus(path)


def test_nothing_is_served_before_the_frames_and_the_path_goes_with_a_failure(path):
    with pytest.raises(RuntimeError), RegisterSocket(path):
        with pytest.raises(InputError, match="no simulation answers there: Connection refused"):
            SocketBus(path)
        raise RuntimeError
    assert not os.path.exists(path)


@pytest.mark.model
def test_nobody_is_let_in_once_the_program_has_ended(program, path):
    with RegisterSocket(path) as registers:
        with Replay(program, registers=registers) as replay:
            replay.feed([])
            assert [event.kind for event in replay.events()] == [Kind.SUMMARY]
        with pytest.raises(InputError, match="no simulation answers there: Connection refused"):
            SocketBus(path, timeout=1)


def test_a_simulation_that_does_not_answer_is_given_up(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with SocketBus(path, timeout=0.01) as bus:
            with pytest.raises(BusError, match="^read of 0x000: no answer in time$"):
                bus.read(0)
            with pytest.raises(BusClosed):
                bus.read(0)


@pytest.mark.parametrize(("name", "reason"), [
    ("taken", "Address already in use"), ("none/here", "No such file or directory"),
    ("x" * 200, "AF_UNIX path too long"), ("", "Address already in use"),
], ids=["taken", "no folder", "too long", "empty"])
def test_a_path_that_cannot_be_is_refused(tmp_path, monkeypatch, name, reason):
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("mine")
    with pytest.raises(InputError) as error:
        RegisterSocket(name)
    remedy = ("remove what is there if no simulation uses it, or give another path"
              if "in use" in reason else "give a short path in a folder that is there")
    assert str(error.value) == f"{name}: cannot serve registers there: {reason}; {remedy}"
    assert os.listdir() == ["taken"]
    assert Path("taken").read_text() == "mine"
