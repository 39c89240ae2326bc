# SPDX-License-Identifier: Apache-2.0
"""Lean frames: containers that carry the payloads of many packets behind one small tag.

fpga/lean.md describes the format. :mod:`.container` has its facts, which hardware and software
share; :mod:`.codec` packs and unpacks containers in plain Python.
"""
