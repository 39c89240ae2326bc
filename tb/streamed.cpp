// SPDX-License-Identifier: Apache-2.0
// Streams the ports of a compiled model, a record a cycle, as a shared library. What the ports are
// called and which words of a record are theirs is in ports.h: IN(name, word), OUT(name, word).

#include <cstdint>
#include <cstring>

// The whole model, so that one run of the compiler reads the headers for all.
#include "Vstreamed__ALL.cpp"
#include "ports.h"

// The clock goes up; that it is low again is seen when the model is evaluated next.
static void edge(Vstreamed* top) {
    top->clk = 1;
    top->eval();
    top->clk = 0;
}

extern "C" void* create() {
    auto* top = new Vstreamed(new VerilatedContext);
    top->clk = 0;
    top->rst = 0;
    top->eval();
    return top;
}

extern "C" void reset(uint64_t cycles, void* model) {
    auto* top = static_cast<Vstreamed*>(model);
    top->rst = 1;
    while (cycles--) {
        top->eval();
        edge(top);
    }
    top->rst = 0;
}

// What goes out is what is shown in the cycle of what comes in.
extern "C" void run(uint64_t count, void* model, const uint32_t* in, uint32_t* out) {
    auto* top = static_cast<Vstreamed*>(model);
    for (uint64_t n = 0; n < count; ++n, in += WORDS_IN, out += WORDS_OUT) {
#define IN(name, word) std::memcpy(&top->name, in + word, sizeof top->name);
        PORTS_IN
        top->eval();
#define OUT(name, word) std::memcpy(out + word, &top->name, sizeof top->name);
        PORTS_OUT
        edge(top);
    }
}
