# SPDX-License-Identifier: Apache-2.0
"""``python -m flytrim`` is the command ``flytrim``."""

from .cli import main

main()
