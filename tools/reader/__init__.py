"""Trains the cross-encoder of the profile thorough: `make reader` runs it.

A cross-encoder that was trained on web search learns to read memories: chats, records and notes, each passage with its speaker
and date. `dialogues/` has the memories and their questions, which were written for this; no benchmark is among them. What is
trained becomes a patch of the public model's file in `models/patches/`. It needs the packages `torch` and `onnx`.
"""
