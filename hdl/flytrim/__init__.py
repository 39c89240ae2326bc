# SPDX-License-Identifier: Apache-2.0
"""flytrim: packet-trimming hardware for collective traffic, and the tools around it."""

__version__ = "0.1.0"
