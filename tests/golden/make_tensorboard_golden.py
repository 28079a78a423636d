#!/usr/bin/env python3
"""Writes tensorboard.tfevents beside this file: three events encoded and framed by TensorBoard's own code, which
test_tensorboard.cpp encodes again byte by byte.  Needs the package tensorboard (pip install tensorboard).
"""
import pathlib
import struct

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

events = [
    Event(wall_time=1.7e9, file_version="brain.Event:2"),
    Event(wall_time=1.7e9 + 0.25, step=300, session_log=SessionLog(status=SessionLog.START)),
    Event(wall_time=1.7e9 + 0.5, step=300, summary=Summary(value=[
        Summary.Value(tag="loss", simple_value=struct.unpack("f", struct.pack("f", 0.6931))[0]),
        Summary.Value(tag="validation/auc", simple_value=0.75)])),
]
path = pathlib.Path(__file__).with_name("tensorboard.tfevents")
with open(path, "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString())
    writer.flush()
print(f"{path}: {path.stat().st_size} bytes")
