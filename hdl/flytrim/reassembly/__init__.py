# SPDX-License-Identifier: Apache-2.0
"""Reassembly: registered messages land in memory, complete once, in order."""
