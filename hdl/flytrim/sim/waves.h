// SPDX-License-Identifier: Apache-2.0
//
// Records waves where the program was built for it, and costs nothing where not. One step of time
// in the file is half a clock cycle: cycle n rises at 2 n + 1.

#pragma once

#include <csignal>
#include <cstdint>

#if defined(WAVE_FST)
#include "verilated_fst_c.h"
using WaveFile = VerilatedFstC;
#elif defined(WAVE_VCD)
#include "verilated_vcd_c.h"
using WaveFile = VerilatedVcdC;
#endif

#if defined(WAVE_FST) || defined(WAVE_VCD)

constexpr unsigned WAVE_TAIL_CYCLES = 256;  // recorded after the end: what was in flight
constexpr uint64_t WAVE_LIMIT_CYCLES = 5000;  // recorded in all: a cycle can take 100 KB
constexpr int WAVE_LEVELS = 99;

// Set by SIGTERM, so that the file is closed with everything in it.
volatile std::sig_atomic_t ended = 0;

class Waves {
public:
    ~Waves() { close(); }

    template <class Device> void open(Device& device, const char* path) {
        if (!path) return;
        // Without SA_RESTART: a program that waits on a pipe has to notice, too.
        struct sigaction action {};
        action.sa_handler = [](int) { ended = 1; };
        sigaction(SIGTERM, &action, nullptr);
        Verilated::traceEverOn(true);
        file_ = new WaveFile;
        file_->set_time_unit("1ns");
        file_->set_time_resolution("1ns");
        device.trace(file_, WAVE_LEVELS);
        file_->open(path);
        std::atexit(close);
    }

    void record(bool on) {
        if (on) tail_ = FOR_EVER;
        else if (tail_ == FOR_EVER) tail_ = 2 * WAVE_TAIL_CYCLES;
    }

    void dump(uint64_t half_cycle) {
        if (ended) std::exit(2);
        if (!file_ || !tail_ || recorded_++ >= 2 * WAVE_LIMIT_CYCLES) return;
        file_->dump(half_cycle);
        if (tail_ != FOR_EVER) --tail_;
    }

private:
    static constexpr uint64_t FOR_EVER = ~0ull;
    static void close() {
        if (file_ && file_->isOpen()) file_->close();
    }
    // Outlives the bench, to be closed wherever the program exits.
    inline static WaveFile* file_ = nullptr;
    uint64_t tail_ = 0, recorded_ = 0;
};

#else

struct Waves {
    template <class Device> void open(Device&, const char*) {}
    void record(bool) {}
    void dump(uint64_t) {}
};

#endif
