// SPDX-License-Identifier: Apache-2.0
//
// Replay harness: a compiled TrimNic that is driven by a command stream on standard input and
// answers with an event stream on standard output. There is no Python in this loop.
//
// Both streams are little-endian. The clock advances only while a command needs it, so cycle
// numbers are the same however fast the commands arrive. Frames that follow each other in the
// command stream enter back to back, with no cycle between them.
//
// Command: kind u8, flags u8, detail u16, value u32, then a body.
//   1 write   value address, body data u32                    answers `written`
//   2 read    value address                                   answers `data`
//             flags bit 0 of both: the access only starts, and takes place while the commands that
//             follow run; another access, a reset and the end wait until it is answered
//   3 frame   flags bit 0: the MAC marked it bad; value bytes, 1 to 65,536; body the bytes
//   4 idle    value cycles
//   5 sink    flags output (0 trim, 1 bypass, 2 metadata); detail bits 7:0 mode (0 always ready,
//             1 ready at random, 2 ready only after valid), bits 15:8 rate (ready in rate of 256
//             cycles); value seed
//   6 reset   value cycles
//   7 end     drains, sends `summary`, and ends the program
//   8 wave    value 1 starts and 0 ends the recording of waves, some cycles later so that what is
//             in flight shows; without effect in a program that was not built for it
//
// Event: kind u8, flags u8, zero u16, body bytes u32, cycle u64, then the body.
//   1 written    flags bresp, or 0xFF for no answer; body address u32
//   2 data       flags rresp, or 0xFF for no answer; body address u32, data u32
//   3 verdict    cycle of the frame's first accepted beat; body VerdictRecord u32
//   4 trim       flags bit 0: error; cycle of the packet's first beat; body the payload
//   5 bypass     flags bit 0: error; cycle of the frame's first beat; body the frame
//   6 metadata   cycle of the transfer; body MetaRecord, 32 bytes
//   7 violation  cycle; body a sentence: an output broke a rule of its stream
//   8 hang       cycle; body a sentence: something awaited did not come
//   9 summary    cycle: cycles run; body u64 each: frames in, beats accepted, cycle of the first
//                and of the last accepted beat, cycles a beat waited for tready, verdicts out
//
// Macros: WIDTH (bits a beat), MAX_FRAME (bytes; bounds the wait for the end of the drain),
// SIDE_WIDTH (bits of the side band: junk is driven, and what comes out is not looked at),
// WAVE_FST or WAVE_VCD (record waves).
//
// Arguments: the file of the waves, or an empty one; it is written whole also when SIGTERM ends the
// program. The number of an open socket, bound to a path: from when it listens, until the end
// command, its clients' register accesses take place between those of the command stream, and cost
// no cycle (clients.h).

#include <deque>

#include "Vflytrim_nic.h"
#include "clients.h"
#include "drive.h"
#include "monitor.h"
#include "registers.h"
#include "verilated.h"
#include "waves.h"

namespace {

constexpr unsigned QUIET_CYCLES = 256;     // silence after which nothing more is in flight
// Two output queues of two longest frames each, at the slowest sink a profile can ask for.
constexpr uint64_t DRAIN_LIMIT = 4096 + 4ull * 256 * ((MAX_FRAME + LANES - 1) / LANES);
constexpr size_t USER_BYTES = (1 + SIDE_WIDTH + 7) / 8;

// Bit 0 of a tuser of any width.
template <class User> bool error_flag(const User& user) {
    uint8_t low;
    std::memcpy(&low, &user, 1);
    return low & 1;
}

// Tells of every packet that leaves by an output.
class Listener : public PacketMonitor {
public:
    Listener(Report& report, Output& output, const char* name, Event kind)
        : PacketMonitor(report, name), output_(output), kind_(kind) {}

private:
    void packet(bool error, uint64_t first_cycle, const std::vector<uint8_t>& bytes) override {
        output_.event(kind_, error, first_cycle, bytes.data(), uint32_t(bytes.size()));
    }

    Output& output_;
    const Event kind_;
};

class Bench {
public:
    Bench(const char* wave_file, int listener)
        : input_(output_), report_(output_), port_(dut_, report_), clients_(listener),
          trim_(report_, output_, "trim", TRIM), bypass_(report_, output_, "bypass", BYPASS),
          meta_(report_, output_) {
        dut_.clk = 0;
        dut_.rst = 0;
        dut_.s_axil_awprot = dut_.s_axil_arprot = 0;
        dut_.s_axil_wstrb = 0xF;
        release_input();
        waves_.open(dut_, wave_file);
    }

    void run() {
        for (;;) {
            const uint8_t* head = input_.take(8);
            const uint8_t kind = head[0], flags = head[1];
            const uint16_t detail = uint16_t(head[2] | head[3] << 8);
            uint32_t value;
            std::memcpy(&value, head + 4, 4);
            switch (kind) {
            case WRITE: {
                uint32_t data;
                std::memcpy(&data, input_.take(4), 4);
                access({true, value, data, COMMAND_STREAM}, flags & 1);
                break;
            }
            case READ: access({false, value, 0, COMMAND_STREAM}, flags & 1); break;
            case FRAME:
                if (value == 0 || value > MAX_COMMAND_FRAME) fail("a frame has an unusable length");
                frame(input_.take(value), value, flags & 1);
                break;
            case IDLE: while (value--) idle(); break;
            case SINK:
                if (flags > 2 || (detail & 0xFF) > AFTER_VALID) fail("no such sink profile");
                sinks_[flags].configure(detail & 0xFF, detail >> 8, value);
                break;
            case RESET: reset(value); break;
            case END: finish(); return;
            case WAVE: waves_.record(value); break;
            default: fail("unknown command");
            }
        }
    }

private:
    // Junk stands on the receive port while nothing is sent: nobody may look at it.
    void release_input() {
        if (released_) return;
        rx_.junk(dut_.s_axis_rx_tdata, dut_.s_axis_rx_tkeep);
        dut_.s_axis_rx_tvalid = 0;
        dut_.s_axis_rx_tlast = 1;
        drive_user(true);
        released_ = true;
    }

    // The error flag, and junk as the side band: nothing in the device depends on it.
    void drive_user(bool error) {
        uint8_t user[USER_BYTES];
        for (uint8_t& byte : user) byte = SIDE_WIDTH ? uint8_t(rx_.random.next()) : 0;
        user[0] = uint8_t((user[0] & ~1) | error);
        user[USER_BYTES - 1] &= 0xFF >> (8 * USER_BYTES - 1 - SIDE_WIDTH);
        std::memcpy(&dut_.s_axis_rx_tuser, user, USER_BYTES);
    }

    // One clock cycle: everything is sampled as a flip-flop at the rising edge would see it.
    void cycle() {
        dut_.m_axis_trim_tready = sinks_[0].ready;
        dut_.m_axis_bypass_tready = sinks_[1].ready;
        dut_.m_axis_meta_tready = sinks_[2].ready;
        dut_.clk = 0;
        dut_.eval();
        waves_.dump(2 * report_.cycle);
        if (!dut_.rst) sample();
        rx_accepted_ = dut_.s_axis_rx_tvalid && dut_.s_axis_rx_tready;
        port_.sample();
        sinks_[0].advance(dut_.m_axis_trim_tvalid);
        sinks_[1].advance(dut_.m_axis_bypass_tvalid);
        sinks_[2].advance(dut_.m_axis_meta_tvalid);
        quiet_ = dut_.m_axis_trim_tvalid || dut_.m_axis_bypass_tvalid || dut_.m_axis_meta_tvalid
            ? 0 : quiet_ + 1;
        dut_.clk = 1;
        dut_.eval();
        waves_.dump(2 * report_.cycle + 1);
        ++report_.cycle;
        if (!port_.busy()) serve();
        else if (const Access* done = port_.advance()) answer(*done);
    }

    void sample() {
        trim_.sample(dut_.m_axis_trim_tvalid, sinks_[0].ready, dut_.m_axis_trim_tdata,
                     dut_.m_axis_trim_tkeep, dut_.m_axis_trim_tlast, error_flag(dut_.m_axis_trim_tuser));
        bypass_.sample(dut_.m_axis_bypass_tvalid, sinks_[1].ready, dut_.m_axis_bypass_tdata,
                       dut_.m_axis_bypass_tkeep, dut_.m_axis_bypass_tlast,
                       error_flag(dut_.m_axis_bypass_tuser));
        meta_.sample(dut_.m_axis_meta_tvalid, sinks_[2].ready, dut_.m_axis_meta_tdata);
        if (dut_.m_axis_verdict_tvalid) {
            const uint32_t record = dut_.m_axis_verdict_tdata;
            ++verdicts_;
            if (entered_.empty()) {
                report_.violation("verdict: record 0x%08x belongs to no frame", record);
            } else {
                output_.event(VERDICT, 0, entered_.front(), &record, 4);
                entered_.pop_front();
            }
        }
        if (!dut_.s_axis_rx_tready) report_.violation("rx: tready is low");
    }

    void idle() { release_input(); cycle(); }

    void reset(uint32_t cycles) {
        settle();
        dut_.rst = 1;
        while (cycles--) idle();
        dut_.rst = 0;
        trim_.reset();
        bypass_.reset();
        meta_.reset();
        entered_.clear();
    }

    void frame(const uint8_t* bytes, size_t size, bool mac_error) {
        released_ = false;
        for (size_t at = 0; at < size; at += LANES) {
            const size_t count = std::min(LANES, size - at);
            rx_.beat(dut_.s_axis_rx_tdata, dut_.s_axis_rx_tkeep, bytes + at, count);
            const bool last = at + count == size;
            dut_.s_axis_rx_tvalid = 1;
            dut_.s_axis_rx_tlast = last;
            drive_user(last && mac_error);
            uint64_t waited = 0;
            // A frame may get its verdict in the cycle that takes its last beat, so it is
            // expected from the first one on.
            if (at == 0) entered_.push_back(report_.cycle);
            for (cycle(); !rx_accepted_; cycle()) {
                if (++waited > DRAIN_LIMIT) {
                    report_.hang("rx: tready stayed low for %llu cycles",
                                 static_cast<unsigned long long>(waited));
                    finish();
                    std::exit(0);
                }
            }
            if (at == 0 && waited) entered_.back() += waited;
            if (beats_++ == 0) first_beat_ = report_.cycle - 1;
            last_beat_ = report_.cycle - 1;
            stalls_ += waited;
        }
        ++frames_;
    }

    void access(const Access& wanted, bool background) {
        settle();
        port_.begin(wanted);
        if (!background) settle();
    }

    void settle() { while (port_.busy()) idle(); }

    // Begins what a client asks for, if one does.
    void serve() {
        Access wanted;
        if (dut_.rst || !clients_.next(wanted)) return;
        if (wanted.address < AXI_LITE_BYTES) {
            port_.begin(wanted);
        } else {
            wanted.response = DECERR;
            clients_.answer(wanted);
        }
    }

    void answer(const Access& done) {
        if (done.client != COMMAND_STREAM)
            clients_.answer(done);
        else if (done.write)
            output_.event(WRITTEN, done.response, report_.cycle, &done.address, 4);
        else
            output_.event(DATA, done.response, report_.cycle, &done.address, 4, &done.data, 4);
    }

    void finish() {
        clients_.close();
        quiet_ = 0;
        for (uint64_t waited = 0; !entered_.empty() || port_.busy() || quiet_ < QUIET_CYCLES;
             ++waited) {
            if (waited > DRAIN_LIMIT) {
                report_.hang("drain: after %llu cycles %zu frames have no verdict",
                             static_cast<unsigned long long>(waited), entered_.size());
                break;
            }
            idle();
        }
        for (const auto* monitor : {&trim_, &bypass_})
            if (monitor->open_bytes())
                report_.hang("%s: a packet stays open after %zu bytes", monitor->name,
                             monitor->open_bytes());
        const uint64_t body[6] = {frames_, beats_, first_beat_, last_beat_, stalls_, verdicts_};
        output_.event(SUMMARY, 0, report_.cycle, body, sizeof body);
        output_.flush();
    }

    Vflytrim_nic dut_;
    Waves waves_;
    Output output_;
    Input input_;
    Report report_;
    RegisterPort<Vflytrim_nic> port_;
    Clients clients_;
    Sink sinks_[3];
    Listener trim_, bypass_;
    RecordMonitor meta_;
    BeatDriver rx_;
    std::deque<uint64_t> entered_;  // first cycles of the frames that wait for their verdict
    bool released_ = false;
    bool rx_accepted_ = false;
    unsigned quiet_ = 0;
    uint64_t frames_ = 0, beats_ = 0, stalls_ = 0, verdicts_ = 0, first_beat_ = 0, last_beat_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    Bench bench(argc > 1 && *argv[1] ? argv[1] : nullptr, argc > 2 ? std::atoi(argv[2]) : -1);
    bench.run();
    return 0;
}
