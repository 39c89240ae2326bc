# SPDX-License-Identifier: Apache-2.0
"""What a top costs on an FPGA: synthesis with the open tools, and the netlist read back."""
