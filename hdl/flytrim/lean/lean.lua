-- SPDX-License-Identifier: Apache-2.0
-- Wireshark dissector of lean frames over Ethernet, as fpga/lean.md describes them.
--
--     tshark -X lua_script:lean.lua -r capture.pcap -V
--
-- Records of bare containers cannot be told apart here without the flow's template: their length is
-- that of all of them over their number.

local lean = Proto("lean", "Lean frame")

local EXTENSIONS = {}
local function has(bytes, ...)
    for _, opcode in ipairs({...}) do EXTENSIONS[opcode] = bytes end
end
has(0, 0x00, 0x01, 0x02, 0x04, 0x07, 0x08, 0x0E, 0x20, 0x21, 0x22, 0x24, 0x27, 0x28)
has(4, 0x03, 0x05, 0x09, 0x0D, 0x0F, 0x10, 0x16, 0x17, 0x23, 0x25, 0x29)
has(8, 0x64)
has(12, 0x65)
has(16, 0x06, 0x0A, 0x26, 0x2A)
has(20, 0x0B, 0x2B)

local f = {
    subtype = ProtoField.uint16("lean.subtype", "Protocol", base.HEX),
    version = ProtoField.uint8("lean.version", "Version", base.DEC, nil, 0xF0),
    full = ProtoField.bool("lean.full", "Full records", 8, nil, 0x01),
    routed = ProtoField.bool("lean.routed", "Route tag", 8, nil, 0x02),
    flow = ProtoField.uint16("lean.flow", "Flow"),
    psn = ProtoField.uint24("lean.psn", "First PSN"),
    sequence = ProtoField.uint16("lean.sequence", "Sequence"),
    source = ProtoField.uint24("lean.source", "Source", base.DEC, nil, 0xFFF000),
    destination = ProtoField.uint24("lean.destination", "Destination", base.DEC, nil, 0x000FFF),
    hops = ProtoField.uint8("lean.hop_limit", "Hop limit"),
    opcode = ProtoField.uint8("lean.record.opcode", "Opcode", base.HEX),
    solicited = ProtoField.bool("lean.record.solicited", "Solicited event", 8, nil, 0x80),
    ack = ProtoField.bool("lean.record.ack_request", "Acknowledge request", 8, nil, 0x40),
    ecn = ProtoField.uint8("lean.record.ecn", "ECN", base.DEC, nil, 0x30),
    migreq = ProtoField.bool("lean.record.migreq", "MigReq", 8, nil, 0x08),
    pad = ProtoField.uint8("lean.record.pad_count", "Pad count", base.DEC, nil, 0x06),
    length = ProtoField.uint16("lean.record.length", "Length"),
    record_psn = ProtoField.uint24("lean.record.psn", "PSN"),
    extensions = ProtoField.bytes("lean.record.extensions", "Extension headers"),
    payload = ProtoField.bytes("lean.record.payload", "Payload"),
    fill = ProtoField.bytes("lean.fill", "Fill"),
    records = ProtoField.uint16("lean.records", "Records"),
    bytes = ProtoField.uint16("lean.bytes", "Bytes of records"),
    crc = ProtoField.uint32("lean.crc", "CRC-32C", base.HEX),
    crc_good = ProtoField.bool("lean.crc.good", "CRC good"),
}
for _, field in pairs(f) do table.insert(lean.fields, field) end

local bad_crc = ProtoExpert.new("lean.crc.bad", "CRC is wrong", expert.group.CHECKSUM,
                                expert.severity.ERROR)
local malformed = ProtoExpert.new("lean.malformed", "Records do not fit the container",
                                  expert.group.MALFORMED, expert.severity.ERROR)
lean.experts = {bad_crc, malformed}

-- Wireshark 4.0 has Lua 5.2, whose numbers are no integers: bit operations are a library.
local band, bxor, rshift = bit32 and bit32.band, bit32 and bit32.bxor, bit32 and bit32.rshift
if not band then
    band, bxor, rshift = load([[return function(a, b) return a & b end,
        function(a, b) return a ~ b end, function(a, n) return a >> n end]])()
end

local table_of_crc = {}
for byte = 0, 255 do
    local state = byte
    for _ = 1, 8 do
        local low = band(state, 1)
        state = rshift(state, 1)
        if low == 1 then state = bxor(state, 0x82F63B78) end
    end
    table_of_crc[byte] = state
end

-- CRC-32C of the first bytes of a buffer; the byte at `zero`, if any, counts as 0.
local function crc32c(buffer, size, zero)
    local state, bytes = 0xFFFFFFFF, buffer(0, size):bytes()
    for at = 0, size - 1 do
        local byte = at == zero and 0 or bytes:get_index(at)
        state = bxor(rshift(state, 8), table_of_crc[band(bxor(state, byte), 0xFF)])
    end
    return bxor(state, 0xFFFFFFFF)
end

-- A full record at `at`; gives where the next one starts, nil where it does not fit.
local function full_record(buffer, at, limit, psn, tree)
    if at + 4 > limit then return nil end
    local opcode, length = buffer(at, 1):uint(), buffer(at + 2, 2):uint()
    local extensions = EXTENSIONS[opcode]
    if not extensions or at + 4 + extensions + length > limit then return nil end
    local size = 4 + extensions + length
    local record = tree:add(lean, buffer(at, size), "Record")
    record:append_text(string.format(", PSN %d, opcode 0x%02x, %d bytes", psn, opcode, length))
    record:add(f.record_psn, psn):set_generated()
    record:add(f.opcode, buffer(at, 1))
    for _, field in ipairs({f.solicited, f.ack, f.ecn, f.migreq, f.pad}) do
        record:add(field, buffer(at + 1, 1))
    end
    record:add(f.length, buffer(at + 2, 2))
    if extensions > 0 then record:add(f.extensions, buffer(at + 4, extensions)) end
    if length > 0 then record:add(f.payload, buffer(at + 4 + extensions, length)) end
    return at + math.floor((size + 3) / 4) * 4
end

local function container(buffer, pinfo, tree)
    local size = buffer:len()
    local flags = band(buffer(0, 1):uint(), 0x0F)
    local full, routed = band(flags, 1) == 1, band(flags, 2) == 2
    local start, last = routed and 12 or 8, size - 8
    if last < start then
        tree:add_proto_expert_info(malformed)
        return
    end
    tree:add(f.version, buffer(0, 1))
    tree:add(f.full, buffer(0, 1))
    tree:add(f.routed, buffer(0, 1))
    tree:add(f.flow, buffer(1, 2))
    tree:add(f.psn, buffer(3, 3))
    tree:add(f.sequence, buffer(6, 2))
    if routed then
        tree:add(f.source, buffer(8, 3))
        tree:add(f.destination, buffer(8, 3))
        tree:add(f.hops, buffer(11, 1))
    end

    local psn, count, bytes = buffer(3, 3):uint(), buffer(last, 2):uint(), buffer(last + 2, 2):uint()
    local fits = start + bytes <= last and count > 0 and bytes > 0
    if fits and full then
        local at = start
        for n = 0, count - 1 do
            at = at and full_record(buffer, at, start + bytes, (psn + n) % 0x1000000, tree)
        end
        fits = at == start + bytes
    elseif fits then
        fits = bytes % count == 0
        local each = bytes / count
        for n = 0, fits and count - 1 or -1 do
            local item = tree:add(f.payload, buffer(start + n * each, each))
            item:prepend_text(string.format("PSN %d, ", (psn + n) % 0x1000000))
        end
    end
    if not fits then tree:add_proto_expert_info(malformed) end
    if fits and start + bytes < last then
        tree:add(f.fill, buffer(start + bytes, last - start - bytes))
    end
    tree:add(f.records, buffer(last, 2))
    tree:add(f.bytes, buffer(last + 2, 2))
    tree:add_le(f.crc, buffer(last + 4, 4))
    local good = crc32c(buffer, size - 4, routed and 11 or -1) == buffer(last + 4, 4):le_uint()
    tree:add(f.crc_good, good):set_generated()
    if not good then tree:add_proto_expert_info(bad_crc) end
    pinfo.cols.info = string.format("Flow %d, container %d, %d %s record%s from PSN %d%s",
        buffer(1, 2):uint(), buffer(6, 2):uint(), count, full and "full" or "bare",
        count == 1 and "" or "s", psn, good and "" or ", CRC is wrong")
end

function lean.dissector(buffer, pinfo, tree)
    if buffer:len() < 2 or buffer(0, 2):uint() ~= 0x4C46 then return 0 end
    pinfo.cols.protocol = "LEAN"
    local branch = tree:add(lean, buffer(), "Lean frame")
    branch:add(f.subtype, buffer(0, 2))
    if buffer:len() < 18 then
        branch:add_proto_expert_info(malformed)
    else
        container(buffer(2):tvb(), pinfo, branch)
    end
    return buffer:len()
end

DissectorTable.get("ethertype"):add(0x88B5, lean)
