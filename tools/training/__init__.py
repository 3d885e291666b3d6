"""Trains the models of the profiles `best` and `thorough` to know memories: `make embedder` and `make reader` run it.

A model that was trained on web search learns chats, records and notes, each passage with its speaker and date. `dialogues/`
has the memories and their questions, which were written for this; no benchmark is among them. What is trained becomes a patch
of the public model's file in `models/patches/`. It needs the packages `torch` and `onnx`.
"""
