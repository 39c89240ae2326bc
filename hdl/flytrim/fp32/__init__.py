# SPDX-License-Identifier: Apache-2.0
"""Floating point that comes out to the bit: sum, minimum and maximum at one result a cycle."""
