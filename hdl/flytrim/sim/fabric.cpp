// SPDX-License-Identifier: Apache-2.0
//
// Fabric harness: a compiled TrimSwitch between links that somebody else simulates. Frames are
// queued for its ports with the cycle from which they may enter, the clock is run to a cycle, and
// every frame that left until then is told. There is no Python in this loop.
//
// Both streams are little-endian. The clock advances for `run`, `reset` and register accesses
// alone, and frames enter and leave in all of their cycles, so that a run depends on nothing but
// the commands.
//
// Command: kind u8, flags u8, detail u16, value u32, then a body.
//   1 write   value address, body data u32                    answers `written`
//   2 read    value address                                   answers `data`
//   3 frame   flags bit 0: the MAC marked it bad; detail port; value bytes, 1 to 65,536; body the
//             cycle u64 before which it does not enter, then the bytes. Frames of a port enter in
//             the order of their commands, back to back where they may
//   5 sink    flags port; detail bits 7:0 mode (0 always ready, 1 ready at random, 2 ready only
//             after valid), bits 15:8 rate (ready in rate of 256 cycles); value seed
//   6 reset   value cycles; what is queued is forgotten
//   8 wave    value 1 starts and 0 ends the recording of waves; without effect in a program that
//             was not built for it
//   9 run     body the cycle u64 to run to. With flags bit 0 the run ends once all frames have
//             entered and nothing has left for 256 cycles; that it does not come to that, or that a
//             frame stays open, is a `hang`. Answers `ran`, after all that happened
//
// Event: kind u8, flags u8, zero u16, body bytes u32, cycle u64, then the body.
//   1 written    flags bresp, or 0xFF for no answer; body address u32
//   2 data       flags rresp, or 0xFF for no answer; body address u32, data u32
//   7 violation  cycle; body a sentence: an output broke a rule of its stream
//   8 hang       cycle; body a sentence: something awaited did not come
//  10 left       flags bit 0: error, bits 7:1 port; cycle of the first beat; body the cycle u64 of
//                the last beat, then the bytes
//  11 ran        flags bit 0: irq; cycle: cycles run; body u64 each: beats that entered by port, then
//                beats that left by port, all since the program began
//
// Macros: WIDTH (bits a beat), WAVE_FST or WAVE_VCD (record waves). The header ports.h, which is
// made for a number of ports: PORTS, and EACH_PORT(X), X(0) X(1) and so on.
//
// Argument: the file of the waves, or an empty one; it is written whole also when SIGTERM ends the
// program. The end of the commands ends the program.

#include <deque>

#include "Vflytrim_switch.h"
#include "drive.h"
#include "monitor.h"
#include "ports.h"
#include "registers.h"
#include "verilated.h"
#include "waves.h"

namespace {

using Device = Vflytrim_switch;
using Data = std::remove_reference_t<decltype(Device::s_axis_rx0_tdata)>;
using Keep = std::remove_reference_t<decltype(Device::s_axis_rx0_tkeep)>;

constexpr unsigned QUIET_CYCLES = 256;     // silence after which nothing more is in flight

// Verilator gives every port of the device a name of its own; here they have numbers.
struct Stream {
    Data& data;
    Keep& keep;
    CData &last, &user, &valid, &ready;
};
#define STREAM(prefix) \
    {prefix##_tdata, prefix##_tkeep, prefix##_tlast, prefix##_tuser, prefix##_tvalid, \
     prefix##_tready},
#define RX_STREAM(n) STREAM(dut_.s_axis_rx##n)
#define TX_STREAM(n) STREAM(dut_.m_axis_tx##n)
#define RX_SOURCE(n) {rx_[n], report_, n},
#define TX_MONITOR(n) {report_, output_, "tx" #n, n},

struct Frame {
    uint64_t from;  // the first cycle that it may enter in
    bool error;
    std::vector<uint8_t> bytes;
};

// The near end of a receive port: the frames that are to enter it.
class Source {
public:
    Source(const Stream& port, Report& report, unsigned number)
        : port_(port), report_(report), number_(number), driver_(number + 1) {
        release();
    }

    void add(Frame frame) { waiting_.push_back(std::move(frame)); }
    void reset() {
        waiting_.clear();
        at_ = 0;
        release();
    }
    size_t waiting() const { return waiting_.size(); }
    uint64_t beats() const { return beats_; }

    // Before the rising edge of a cycle: what it shows the port.
    void drive() {
        if (waiting_.empty() || (at_ == 0 && waiting_.front().from > report_.cycle)) {
            if (port_.valid) release();
            return;
        }
        const Frame& frame = waiting_.front();
        count_ = std::min(LANES, frame.bytes.size() - at_);
        driver_.beat(port_.data, port_.keep, frame.bytes.data() + at_, count_);
        const bool last = at_ + count_ == frame.bytes.size();
        port_.valid = 1;
        port_.last = last;
        port_.user = last && frame.error;
    }

    void sample() {
        if (!port_.ready) report_.violation("rx%u: tready is low", number_);
        if (!port_.valid || !port_.ready) return;
        ++beats_;
        at_ += count_;
        if (port_.last) {
            waiting_.pop_front();
            at_ = 0;
        }
    }

private:
    void release() {
        driver_.junk(port_.data, port_.keep);
        port_.valid = 0;
        port_.last = port_.user = 1;
    }

    const Stream& port_;
    Report& report_;
    const unsigned number_;
    BeatDriver driver_;
    std::deque<Frame> waiting_;
    size_t at_ = 0, count_ = 0;  // bytes of the first frame that have entered, that are shown
    uint64_t beats_ = 0;
};

// The far end of a transmit port.
class Monitor : public PacketMonitor {
public:
    Monitor(Report& report, Output& output, const char* name, unsigned number)
        : PacketMonitor(report, name, true), report_(report), output_(output), number_(number) {}

private:
    void packet(bool error, uint64_t first_cycle, const std::vector<uint8_t>& bytes) override {
        output_.event(LEFT, uint8_t(number_ << 1 | error), first_cycle, &report_.cycle, 8,
                      bytes.data(), uint32_t(bytes.size()));
    }

    Report& report_;
    Output& output_;
    const unsigned number_;
};

class Bench {
public:
    explicit Bench(const char* wave_file) : input_(output_), report_(output_), port_(dut_, report_) {
        dut_.clk = 0;
        dut_.rst = 0;
        dut_.s_axil_awprot = dut_.s_axil_arprot = 0;
        dut_.s_axil_wstrb = 0xF;
        waves_.open(dut_, wave_file);
    }

    void run() {
        for (;;) {
            const uint8_t* head = input_.take(8);
            const uint8_t kind = head[0], flags = head[1];
            const uint16_t detail = uint16_t(head[2] | head[3] << 8);
            const uint32_t value = word<uint32_t>(head + 4);
            switch (kind) {
            case WRITE: access({true, value, word<uint32_t>(input_.take(4)), COMMAND_STREAM}); break;
            case READ: access({false, value, 0, COMMAND_STREAM}); break;
            case FRAME: {
                if (detail >= PORTS) fail("no such port");
                if (value == 0 || value > MAX_COMMAND_FRAME) fail("a frame has an unusable length");
                const uint8_t* body = input_.take(8 + value);
                sources_[detail].add({word<uint64_t>(body), bool(flags & 1),
                                      {body + 8, body + 8 + value}});
                break;
            }
            case SINK:
                if (flags >= PORTS || (detail & 0xFF) > AFTER_VALID) fail("no such sink profile");
                sinks_[flags].configure(detail & 0xFF, detail >> 8, value);
                break;
            case RESET: reset(value); break;
            case WAVE: waves_.record(value); break;
            case RUN: run_to(word<uint64_t>(input_.take(8)), flags & 1); break;
            default: fail("unknown command");
            }
        }
    }

private:
    template <class Word> static Word word(const uint8_t* bytes) {
        Word value;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    }

    // One clock cycle: everything is sampled as a flip-flop at the rising edge would see it.
    void cycle() {
        for (unsigned n = 0; n < PORTS; ++n) {
            sources_[n].drive();
            tx_[n].ready = sinks_[n].ready;
        }
        dut_.clk = 0;
        dut_.eval();
        waves_.dump(2 * report_.cycle);
        bool valid = false;
        for (unsigned n = 0; n < PORTS; ++n) {
            if (!dut_.rst) sample(n);
            valid |= tx_[n].valid | rx_[n].valid;
            sinks_[n].advance(tx_[n].valid);
        }
        quiet_ = valid ? 0 : quiet_ + 1;
        port_.sample();
        dut_.clk = 1;
        dut_.eval();
        waves_.dump(2 * report_.cycle + 1);
        ++report_.cycle;
        if (const Access* done = port_.advance()) answer(*done);
    }

    void sample(unsigned n) {
        const Stream& tx = tx_[n];
        sources_[n].sample();
        monitors_[n].sample(tx.valid, tx.ready, tx.data, tx.keep, tx.last, tx.user & 1);
    }

    void reset(uint32_t cycles) {
        for (Source& source : sources_) source.reset();
        for (Monitor& monitor : monitors_) monitor.reset();
        dut_.rst = 1;
        while (cycles--) cycle();
        dut_.rst = 0;
    }

    void access(const Access& wanted) {
        port_.begin(wanted);
        while (port_.busy()) cycle();
    }

    void answer(const Access& done) {
        if (done.write)
            output_.event(WRITTEN, done.response, report_.cycle, &done.address, 4);
        else
            output_.event(DATA, done.response, report_.cycle, &done.address, 4, &done.data, 4);
    }

    void run_to(uint64_t until, bool drain) {
        quiet_ = 0;
        while (report_.cycle < until && !(drain && drained())) cycle();
        if (drain) told_of_rest();
        uint64_t beats[2 * PORTS];
        for (unsigned n = 0; n < PORTS; ++n) {
            beats[n] = sources_[n].beats();
            beats[PORTS + n] = monitors_[n].beats();
        }
        output_.event(RAN, dut_.irq, report_.cycle, beats, sizeof beats);
        output_.flush();
    }

    bool drained() const {
        return quiet_ >= QUIET_CYCLES && std::all_of(
            std::begin(sources_), std::end(sources_), [](auto& each) { return !each.waiting(); });
    }

    void told_of_rest() {
        for (unsigned n = 0; n < PORTS; ++n) {
            if (sources_[n].waiting())
                report_.hang("rx%u: frames that wait to enter: %zu", n, sources_[n].waiting());
            if (monitors_[n].open_bytes())
                report_.hang("tx%u: a frame stays open after %zu bytes", n,
                             monitors_[n].open_bytes());
        }
        if (quiet_ < QUIET_CYCLES) report_.hang("drain: frames still leave");
    }

    Device dut_;
    Waves waves_;
    Output output_;
    Input input_;
    Report report_;
    RegisterPort<Device> port_;
    const Stream rx_[PORTS] = {EACH_PORT(RX_STREAM)};
    const Stream tx_[PORTS] = {EACH_PORT(TX_STREAM)};
    Source sources_[PORTS] = {EACH_PORT(RX_SOURCE)};
    Monitor monitors_[PORTS] = {EACH_PORT(TX_MONITOR)};
    Sink sinks_[PORTS];
    unsigned quiet_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    Bench bench(argc > 1 && *argv[1] ? argv[1] : nullptr);
    bench.run();
    return 0;
}
