// SPDX-License-Identifier: Apache-2.0
// Streams operands through a compiled model of arithmetic units, one a cycle, as a shared library.

#include <cstdint>
#include <memory>

// The whole model, so that one run of the compiler reads the headers for all.
#include "Varith__ALL.cpp"

// Gives `a[n]`, `b[n]` and `control[n]` in cycle n; `z[n]` and `flags[n]` are what the unit of
// number `unit` shows `latency` cycles later.
extern "C" void stream(uint64_t count, unsigned latency, unsigned unit, const uint32_t* a,
                       const uint32_t* b, const uint8_t* control, uint32_t* z, uint8_t* flags) {
    auto context = std::make_unique<VerilatedContext>();
    auto top = std::make_unique<Varith>(context.get());
    top->rst = 0;
    top->unit = unit;
    for (uint64_t n = 0; n < count + latency; ++n) {
        if (n < count) {
            top->a = a[n];
            top->b = b[n];
            top->control = control[n];
        }
        top->clk = 0;
        top->eval();
        if (n >= latency) {
            z[n - latency] = top->z;
            flags[n - latency] = top->flags;
        }
        top->clk = 1;
        top->eval();
    }
    top->final();
}
