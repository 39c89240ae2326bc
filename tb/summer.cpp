// SPDX-License-Identifier: Apache-2.0
// Streams operands through a compiled sum, a beat a cycle, as a shared library.

#include <cstdint>
#include <cstring>

#include "Vsummer.h"
#include "verilated.h"

static Vsummer* top;

extern "C" void reset(unsigned cycles) {
    if (!top) top = new Vsummer;
    top->rst = 1;
    for (unsigned n = 0; n < 2 * cycles; ++n) {
        top->clk = n & 1;
        top->eval();
    }
    top->rst = 0;
}

// A record in is (valid, last, mask low, mask high, operands), one out (valid, z, flags): what is
// shown in that cycle.
extern "C" void run(uint64_t count, const uint32_t* in, uint32_t* out) {
    for (uint64_t n = 0; n < count; ++n, in += 4 + OPERANDS, out += 3) {
        top->valid_i = in[0];
#if LAST
        top->last_i = in[1];
#endif
        std::memcpy(&top->present, in + 2, sizeof top->present);
        std::memcpy(&top->x, in + 4, 4 * OPERANDS);
        top->clk = 0;
        top->eval();
        out[0] = top->valid_o;
        out[1] = top->z;
        out[2] = top->flags;
        top->clk = 1;
        top->eval();
    }
}
