// SPDX-License-Identifier: Apache-2.0
//
// The two byte streams of a harness, laid out at the head of replay.cpp and of fabric.cpp.

#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

constexpr size_t INPUT_BYTES = 1 << 20;
// Less, because nothing else is done while it is written.
constexpr size_t OUTPUT_BYTES = 1 << 16;
constexpr unsigned MAX_VIOLATIONS = 20;  // told of one run; the first ones say it all

enum Command : uint8_t { WRITE = 1, READ, FRAME, IDLE, SINK, RESET, END, WAVE, RUN };
enum Event : uint8_t {
    WRITTEN = 1, DATA, VERDICT, TRIM, BYPASS, META, VIOLATION, HANG, SUMMARY, LEFT, RAN
};

[[noreturn]] void fail(const char* why) {
    std::fprintf(stderr, "%s\n", why);
    std::exit(2);
}

class Output {
public:
    Output() { buffer_.reserve(OUTPUT_BYTES); }

    void event(Event kind, uint8_t flags, uint64_t cycle, const void* body, uint32_t size,
               const void* more = nullptr, uint32_t more_size = 0) {
        if (buffer_.size() + 16 + size + more_size > OUTPUT_BYTES) flush();
        const uint8_t head[4] = {kind, flags, 0, 0};
        const uint32_t total = size + more_size;
        append(head, 4);
        append(&total, 4);
        append(&cycle, 8);
        append(body, size);
        append(more, more_size);
    }

    void flush() {
        size_t done = 0;
        while (done < buffer_.size()) {
            const ssize_t n = ::write(1, buffer_.data() + done, buffer_.size() - done);
            if (n <= 0) fail("cannot write events");
            done += size_t(n);
        }
        buffer_.clear();
    }

private:
    void append(const void* bytes, size_t size) {
        const auto* first = static_cast<const uint8_t*>(bytes);
        buffer_.insert(buffer_.end(), first, first + size);
    }
    std::vector<uint8_t> buffer_;
};

class Input {
public:
    explicit Input(Output& output) : output_(output), buffer_(INPUT_BYTES) {}

    // The next `size` bytes, valid until the next call. Whoever waits for commands has had every
    // event so far: a controller may ask, wait for the answer, and go on.
    const uint8_t* take(size_t size) {
        while (end_ - begin_ < size) {
            if (begin_ + size > buffer_.size()) {
                std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
                end_ -= begin_;
                begin_ = 0;
            }
            output_.flush();
            const ssize_t n = ::read(0, buffer_.data() + end_, buffer_.size() - end_);
            if (n <= 0) fail("the command stream ended without an end command");
            end_ += size_t(n);
        }
        begin_ += size;
        return buffer_.data() + begin_ - size;
    }

private:
    Output& output_;
    std::vector<uint8_t> buffer_;
    size_t begin_ = 0, end_ = 0;
};

// Where the clock stands, and the way to say that something is wrong.
class Report {
public:
    explicit Report(Output& output) : output_(output) {}

    __attribute__((format(printf, 2, 3))) void violation(const char* format, ...) {
        if (violations_++ >= MAX_VIOLATIONS) return;
        va_list arguments;
        va_start(arguments, format);
        sentence(VIOLATION, format, arguments);
        va_end(arguments);
    }

    __attribute__((format(printf, 2, 3))) void hang(const char* format, ...) {
        va_list arguments;
        va_start(arguments, format);
        sentence(HANG, format, arguments);
        va_end(arguments);
    }

    uint64_t cycle = 0;

private:
    void sentence(Event kind, const char* format, va_list arguments) {
        char text[256];
        const int size = std::vsnprintf(text, sizeof text, format, arguments);
        output_.event(kind, 0, cycle, text, uint32_t(std::min<size_t>(size, sizeof text - 1)));
    }
    Output& output_;
    unsigned violations_ = 0;
};
