// SPDX-License-Identifier: Apache-2.0
//
// The far ends of the device's outputs: when a beat is taken, and whether it keeps the rules.

#pragma once

#include "protocol.h"

constexpr size_t LANES = WIDTH / 8;
constexpr size_t KEEP_BYTES = (LANES + 7) / 8;
constexpr size_t META_BYTES = 32;

enum Mode : uint8_t { ALWAYS, RANDOM, AFTER_VALID };

class Random {
public:
    explicit Random(uint32_t seed = 1) : state_(seed * 0x9E3779B97F4A7C15ull | 1) {}
    uint32_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return uint32_t(state_ >> 32);
    }

private:
    uint64_t state_;
};

// When an output is taken. `ready` is decided before the cycle, from cycles before it.
class Sink {
public:
    void configure(uint8_t mode, uint8_t rate, uint32_t seed) {
        mode_ = Mode(mode);
        rate_ = rate;
        random_ = Random(seed);
        ready = mode_ == ALWAYS;
    }
    void advance(bool valid) {
        if (mode_ == ALWAYS) return;
        if (mode_ == RANDOM) ready = (random_.next() & 0xFF) < rate_;
        else ready = valid && !ready;
    }
    bool ready = true;

private:
    Mode mode_ = ALWAYS;
    uint8_t rate_ = 255;
    Random random_;
};

struct KeepTable {
    uint8_t mask[LANES + 1][KEEP_BYTES] = {};
    KeepTable() {
        for (size_t count = 0; count <= LANES; ++count)
            for (size_t lane = 0; lane < count; ++lane) mask[count][lane / 8] |= 1 << (lane % 8);
    }
    // Valid bytes of a beat, or 0 where the keep is empty or has a hole.
    size_t count(const uint8_t* keep) const {
        if (!std::memcmp(keep, mask[LANES], KEEP_BYTES)) return LANES;
        size_t count = 0;
        while (count < LANES && (keep[count / 8] >> (count % 8) & 1)) ++count;
        return std::memcmp(keep, mask[count], KEEP_BYTES) ? 0 : count;
    }
};

struct Beat {
    uint8_t data[LANES], keep[KEEP_BYTES];
    bool last, error;
    bool operator==(const Beat& other) const {
        return last == other.last && error == other.error
            && !std::memcmp(data, other.data, LANES) && !std::memcmp(keep, other.keep, KEEP_BYTES);
    }
};

// Follows one packet output: holds it to the stream rules and collects whole packets.
class PacketMonitor {
public:
    // An output towards a MAC is gapless: it leaves no gap inside a frame.
    PacketMonitor(Report& report, const char* name, bool gapless = false)
        : name(name), report_(report), gapless_(gapless) {}
    virtual ~PacketMonitor() = default;

    void reset() {
        held_valid_ = in_gap_ = false;
        bytes_.clear();
    }
    size_t open_bytes() const { return bytes_.size(); }
    uint64_t beats() const { return beats_; }

    template <class Data, class Keep>
    void sample(bool valid, bool ready, const Data& data, const Keep& keep, bool last,
                bool error) {
        if (!valid) {
            if (held_valid_) report_.violation("%s: valid dropped before the transfer", name);
            else if (gapless_ && !bytes_.empty() && !in_gap_)
                report_.violation("%s: a gap after %zu bytes of a frame", name, bytes_.size());
            in_gap_ = !bytes_.empty();
            held_valid_ = false;
            return;
        }
        in_gap_ = false;
        Beat beat;
        std::memcpy(beat.data, &data, LANES);
        std::memcpy(beat.keep, &keep, KEEP_BYTES);
        beat.last = last;
        beat.error = last && error;
        if (held_valid_ && !(beat == held_))
            report_.violation("%s: payload changed while stalled", name);
        held_valid_ = !ready;
        if (ready) accept(beat);
        else held_ = beat;
    }

    const char* const name;

private:
    // A whole packet, in the cycle of its last beat.
    virtual void packet(bool error, uint64_t first_cycle, const std::vector<uint8_t>& bytes) = 0;

    void accept(const Beat& beat) {
        ++beats_;
        const size_t count = keeps_.count(beat.keep);
        if (count == 0)
            report_.violation("%s: tkeep is empty or has a hole", name);
        else if (count < LANES && !beat.last)
            report_.violation("%s: tkeep has %zu of %zu bytes before the last beat", name, count,
                              LANES);
        for (size_t lane = count; lane < LANES; ++lane)
            if (beat.data[lane]) {
                report_.violation("%s: byte %zu beyond tkeep is 0x%02x, not zero", name, lane,
                                 beat.data[lane]);
                break;
            }
        if (bytes_.empty()) first_cycle_ = report_.cycle;
        bytes_.insert(bytes_.end(), beat.data, beat.data + count);
        if (!beat.last) return;
        packet(beat.error, first_cycle_, bytes_);
        bytes_.clear();
    }

    Report& report_;
    const KeepTable keeps_;
    const bool gapless_;
    Beat held_{};
    bool held_valid_ = false, in_gap_ = false;
    uint64_t first_cycle_ = 0, beats_ = 0;
    std::vector<uint8_t> bytes_;
};

// Follows the output of metadata records, one a transfer.
class RecordMonitor {
public:
    RecordMonitor(Report& report, Output& output) : report_(report), output_(output) {}
    void reset() { held_ = false; }

    template <class Data>
    void sample(bool valid, bool ready, const Data& data) {
        if (!valid) {
            if (held_) report_.violation("meta: valid dropped before the transfer");
            held_ = false;
            return;
        }
        uint8_t record[META_BYTES];
        std::memcpy(record, &data, META_BYTES);
        if (held_ && std::memcmp(record, record_, META_BYTES))
            report_.violation("meta: payload changed while stalled");
        std::memcpy(record_, record, META_BYTES);
        held_ = !ready;
        if (ready) output_.event(META, 0, report_.cycle, record, META_BYTES);
    }

private:
    Report& report_;
    Output& output_;
    uint8_t record_[META_BYTES] = {};
    bool held_ = false;
};
