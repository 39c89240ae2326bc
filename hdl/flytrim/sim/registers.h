// SPDX-License-Identifier: Apache-2.0
//
// The device's register port: one access at a time, in the cycles that pass anyway.

#pragma once

#include "protocol.h"

constexpr unsigned AXI_LITE_LIMIT = 1000;   // cycles until a register access is given up
constexpr uint32_t AXI_LITE_BYTES = 4096;   // addresses that the port has
constexpr uint8_t DECERR = 3, NO_ANSWER = 0xFF;

constexpr int COMMAND_STREAM = -1;

struct Access {
    bool write;
    uint32_t address;
    uint32_t data;       // to write, or what was read
    int client;          // the socket to answer, or COMMAND_STREAM
    uint8_t response = NO_ANSWER;
};

template <class Device> class RegisterPort {
public:
    RegisterPort(Device& dut, Report& report) : dut_(dut), report_(report) { release(); }

    bool busy() const { return busy_; }

    void begin(const Access& access) {
        access_ = access;
        busy_ = true;
        cycles_ = 0;
        dut_.s_axil_awaddr = dut_.s_axil_araddr = access.address;
        dut_.s_axil_wdata = access.data;
        dut_.s_axil_awvalid = dut_.s_axil_wvalid = dut_.s_axil_bready = access.write;
        dut_.s_axil_arvalid = dut_.s_axil_rready = !access.write;
    }

    // Before the rising edge of a cycle.
    void sample() {
        if (!busy_) return;
        aw_accepted_ = dut_.s_axil_awready;
        w_accepted_ = dut_.s_axil_wready;
        ar_accepted_ = dut_.s_axil_arready;
        answered_ = access_.write ? dut_.s_axil_bvalid : dut_.s_axil_rvalid;
        if (!answered_) return;
        access_.response = access_.write ? dut_.s_axil_bresp : dut_.s_axil_rresp;
        if (!access_.write) access_.data = dut_.s_axil_rdata;
    }

    // After it: the access, in the cycle that ends it.
    const Access* advance() {
        if (!busy_) return nullptr;
        if (aw_accepted_) dut_.s_axil_awvalid = 0;
        if (w_accepted_) dut_.s_axil_wvalid = 0;
        if (ar_accepted_) dut_.s_axil_arvalid = 0;
        if (answered_) {
            if (dut_.s_axil_awvalid || dut_.s_axil_wvalid)
                report_.violation("axil: bvalid before the write was taken");
            if (dut_.s_axil_arvalid)
                report_.violation("axil: rvalid before the address was taken");
        } else if (++cycles_ == AXI_LITE_LIMIT) {
            report_.hang("axil: no answer to a %s 0x%03x", access_.write ? "write to" : "read of",
                         access_.address);
        } else {
            return nullptr;
        }
        release();
        return &access_;
    }

private:
    void release() {
        dut_.s_axil_awvalid = dut_.s_axil_wvalid = dut_.s_axil_arvalid = 0;
        dut_.s_axil_bready = dut_.s_axil_rready = 0;
        busy_ = false;
    }

    Device& dut_;
    Report& report_;
    Access access_{};
    bool busy_ = false, answered_ = false;
    bool aw_accepted_ = false, w_accepted_ = false, ar_accepted_ = false;
    unsigned cycles_ = 0;
};
