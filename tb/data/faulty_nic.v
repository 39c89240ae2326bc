// SPDX-License-Identifier: Apache-2.0
// A device with the ports of a 64-bit TrimNic that passes every frame by and, on request, breaks a
// rule. It shows that the replay harness sees what it is there to see.
// A write to the register at 0, which reads as a device's identity, chooses the fault; other
// registers hold what is written.

module flytrim_nic (
    input  wire         clk,
    input  wire         rst,
    input  wire [63:0]  s_axis_rx_tdata,
    input  wire [7:0]   s_axis_rx_tkeep,
    input  wire         s_axis_rx_tvalid,
    output wire         s_axis_rx_tready,
    input  wire         s_axis_rx_tlast,
    input  wire [0:0]   s_axis_rx_tuser,
    output wire [63:0]  m_axis_bypass_tdata,
    output wire [7:0]   m_axis_bypass_tkeep,
    output wire         m_axis_bypass_tvalid,
    input  wire         m_axis_bypass_tready,
    output wire         m_axis_bypass_tlast,
    output wire [0:0]   m_axis_bypass_tuser,
    output wire [63:0]  m_axis_trim_tdata,
    output wire [7:0]   m_axis_trim_tkeep,
    output wire         m_axis_trim_tvalid,
    input  wire         m_axis_trim_tready,
    output wire         m_axis_trim_tlast,
    output wire [0:0]   m_axis_trim_tuser,
    output wire [255:0] m_axis_meta_tdata,
    output wire         m_axis_meta_tvalid,
    input  wire         m_axis_meta_tready,
    output wire [31:0]  m_axis_verdict_tdata,
    output wire         m_axis_verdict_tvalid,
    input  wire [11:0]  s_axil_awaddr,
    input  wire [2:0]   s_axil_awprot,
    input  wire         s_axil_awvalid,
    output wire         s_axil_awready,
    input  wire [31:0]  s_axil_wdata,
    input  wire [3:0]   s_axil_wstrb,
    input  wire         s_axil_wvalid,
    output wire         s_axil_wready,
    output wire [1:0]   s_axil_bresp,
    output wire         s_axil_bvalid,
    input  wire         s_axil_bready,
    input  wire [11:0]  s_axil_araddr,
    input  wire [2:0]   s_axil_arprot,
    input  wire         s_axil_arvalid,
    output wire         s_axil_arready,
    output wire [31:0]  s_axil_rdata,
    output wire [1:0]   s_axil_rresp,
    output wire         s_axil_rvalid,
    input  wire         s_axil_rready
);
    localparam VALID_DROPS = 1, PAYLOAD_CHANGES = 2, KEEP_HOLE = 3, KEEP_SHORT = 4, JUNK_BEYOND = 5,
               NOT_READY = 6, VERDICT_LOST = 7, LAST_LOST = 8, VERDICT_TWICE = 9, NO_ANSWER = 10,
               EARLY_ANSWER = 11, RECORD_DROPS = 12, RECORD_CHANGES = 13, WAITS_FOR_READY = 14;

    reg [31:0] registers [0:1023];
    reg [3:0] fault = 0;
    reg [15:0] cycles = 0;

    // Frames: one memory, written as they come, read as the sink takes them.
    reg [73:0] beats [0:1023];
    reg [9:0] written = 0, taken = 0;
    wire stored = written != taken;
    wire [73:0] head = beats[taken];
    wire last = head[72];
    wire [7:0] keep = head[71:64];
    wire odd = cycles[0];

    assign s_axis_rx_tready = !(fault == NOT_READY && cycles[1:0] == 0);
    wire accepted = s_axis_rx_tvalid && s_axis_rx_tready;
    assign m_axis_bypass_tvalid = stored && !(fault == VALID_DROPS && odd)
                                  && !(fault == WAITS_FOR_READY && !m_axis_bypass_tready);
    assign m_axis_bypass_tdata = head[63:0] ^ {63'd0, fault == PAYLOAD_CHANGES && odd}
                                 ^ (fault == JUNK_BEYOND && last ? 64'h5A << 56 : 64'd0);
    assign m_axis_bypass_tkeep = fault == KEEP_HOLE ? keep & ~8'h02
                               : fault == KEEP_SHORT ? 8'h0F : keep;
    assign m_axis_bypass_tlast = last && fault != LAST_LOST;
    assign m_axis_bypass_tuser = head[73];
    assign m_axis_trim_tvalid = 0;
    assign m_axis_trim_tdata = 0;
    assign m_axis_trim_tkeep = 0;
    assign m_axis_trim_tlast = 0;
    assign m_axis_trim_tuser = 0;

    // One record a frame: its number.
    reg [7:0] frames = 0, records = 0;
    assign m_axis_meta_tvalid = frames != records && !(fault == RECORD_DROPS && odd);
    assign m_axis_meta_tdata = {248'd0, records ^ {7'd0, fault == RECORD_CHANGES && odd}};

    reg verdict = 0, again = 0;
    assign m_axis_verdict_tvalid = verdict || again;
    assign m_axis_verdict_tdata = {16'd0, 6'd0, 2'd1, 8'd9};

    reg written_answer = 0, read_answer = 0;
    reg [31:0] read_data = 0;
    assign s_axil_awready = s_axil_awvalid && s_axil_wvalid && !written_answer
                            && fault != EARLY_ANSWER;
    assign s_axil_wready = s_axil_awready;
    assign s_axil_bvalid = written_answer || (fault == EARLY_ANSWER && s_axil_awvalid);
    assign s_axil_bresp = 0;
    assign s_axil_arready = !read_answer;
    assign s_axil_rvalid = read_answer && fault != NO_ANSWER;
    assign s_axil_rdata = read_data;
    assign s_axil_rresp = 0;

    always @(posedge clk) begin
        cycles <= cycles + 1;
        verdict <= accepted && s_axis_rx_tlast && fault != VERDICT_LOST;
        again <= verdict && fault == VERDICT_TWICE;
        if (accepted) begin
            beats[written] <= {s_axis_rx_tuser & s_axis_rx_tlast, s_axis_rx_tlast, s_axis_rx_tkeep,
                               s_axis_rx_tdata};
            written <= written + 1;
            if (s_axis_rx_tlast) frames <= frames + 1;
        end
        if (m_axis_bypass_tvalid && m_axis_bypass_tready) taken <= taken + 1;
        if (m_axis_meta_tvalid && m_axis_meta_tready) records <= records + 1;
        if (s_axil_awready) begin
            registers[s_axil_awaddr[11:2]] <= s_axil_wdata;
            if (s_axil_awaddr == 0) fault <= s_axil_wdata[3:0];
            written_answer <= 1;
        end
        if (written_answer && s_axil_bready) written_answer <= 0;
        if (s_axil_arvalid && s_axil_arready) begin
            read_data <= s_axil_araddr == 0 ? 32'h464C5954 : registers[s_axil_araddr[11:2]];
            read_answer <= 1;
        end
        if (s_axil_rvalid && s_axil_rready) read_answer <= 0;
        if (rst) begin
            fault <= 0;
            written <= 0;
            taken <= 0;
            frames <= 0;
            records <= 0;
            written_answer <= 0;
            read_answer <= 0;
        end
    end
endmodule
