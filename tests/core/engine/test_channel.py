"""Messages between guard and worker: whole or not at all, and never waited for."""

import pickle
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.engine.channel import Channel, Line, Nonsense, packed


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


@given(st.lists(st.binary(max_size=300) | st.integers(), max_size=8), st.data())
def test_messages_come_whole_in_whatever_pieces_they_arrive(values, data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel, stream, got = Channel(ours), b"".join(map(packed, values)), []
        while stream:
            cut = data.draw(st.integers(1, len(stream)))
            theirs.sendall(stream[:cut])
            stream = stream[cut:]
            got += channel.receive()
        assert got == values
        assert not channel.ended


def test_what_was_sent_before_a_death_is_read_after_it(ends):
    channel, theirs = ends
    theirs.sendall(packed("last words") + packed("cut off")[:-1])
    theirs.close()
    assert channel.receive() == ["last words"]
    assert channel.ended
    assert channel.receive() == []


def test_nothing_there_is_no_end(ends):
    channel, _ = ends
    assert channel.receive() == []
    assert not channel.ended


NONSENSE = [
    ("a length beyond reason", struct.pack("!Q", 1 << 60)),
    ("no pickle", struct.pack("!Q", 4) + b"junk"),
    ("a pickle of what does not exist", struct.pack("!Q", 16) + b"cnowhere\nthing\n."),
]


@pytest.mark.parametrize(("what", "data"), NONSENSE, ids=[x[0] for x in NONSENSE])
def test_nonsense_of_a_broken_worker_is_named(ends, what, data):
    channel, theirs = ends
    theirs.sendall(data)
    with pytest.raises(Nonsense):
        channel.receive()


def test_a_message_larger_than_the_pipe_is_sent_in_turns(ends):
    channel, theirs = ends
    value = b"x" * (4 << 20)
    channel.send(value)
    assert channel.waiting  # and this line was reached
    theirs.setblocking(False)
    got = bytearray()
    while channel.waiting:
        channel.flush()
        try:
            while data := theirs.recv(1 << 20):
                got += data
        except BlockingIOError:
            pass
    assert pickle.loads(got[8:]) == value


def test_to_a_dead_worker_nothing_is_sent_and_nothing_raised(ends):
    channel, theirs = ends
    theirs.close()
    channel.send("anybody there?")
    channel.send("anybody there?")
    assert not channel.waiting


def test_the_worker_waits_and_learns_of_the_guards_end():
    ours, theirs = socket.socketpair()
    with theirs:
        channel, line = Channel(ours), Line(theirs)
        channel.send({"a": 1})
        assert line.receive() == {"a": 1}
        line.send((1, 2))
        assert channel.receive() == [(1, 2)]
        channel.close()
        with pytest.raises(EOFError):
            line.receive()
        with pytest.raises(BrokenPipeError):
            line.send("late")
