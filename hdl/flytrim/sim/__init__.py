# SPDX-License-Identifier: Apache-2.0
"""A capture through the real RTL: compiled replay harness, captures in and out, report."""
