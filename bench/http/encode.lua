-- Requests for wrk: wrk -s encode.lua URL -- KIND
-- Kinds: short-tokens long-tokens mixed-tokens batch-tokens short-texts mixed-texts batch-texts, each also
-- with -stats (statistics: summary) or -base64 at its end, and openai-short (base64 as the SDKs ask for it).
-- LAMINA_POSITIONS bounds the lengths (default 512), LAMINA_VOCAB the ids (default 30000), LAMINA_MODEL names
-- the model for the OpenAI route.

local positions = tonumber(os.getenv("LAMINA_POSITIONS") or "512")
local vocab = tonumber(os.getenv("LAMINA_VOCAB") or "30000")
local model = os.getenv("LAMINA_MODEL") or "all-MiniLM-L6-v2"
local words = {"the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "rain", "falls",
               "on", "paper", "boats", "and", "nobody", "counts", "them"}
local prepared, at = {}, 0

-- A small generator of our own, so that every run and machine sends the same bytes.
local seed = 1
local function random(n)
    seed = (seed * 16807) % 2147483647
    return 1 + seed % n
end

local function tokens(length)
    local ids = {}
    for i = 1, math.min(length, positions) do
        ids[i] = random(vocab - 1)
    end
    return "[" .. table.concat(ids, ",") .. "]"
end

local function text(length)
    local list = {}
    for i = 1, math.min(length, math.floor(positions / 2)) do
        list[i] = words[random(#words)]
    end
    return '"' .. table.concat(list, " ") .. '"'
end

local function batch(one, count, length)
    local list = {}
    for i = 1, count do
        list[i] = one(length())
    end
    return "[" .. table.concat(list, ",") .. "]"
end

local function fixed(n) return function() return n end end
local function mixed() return 8 + random(504) end
local function mixed_short() return 4 + random(100) end

local kinds = {
    ["short-tokens"] = function() return '"tokens":' .. batch(tokens, 1, fixed(16)) end,
    ["long-tokens"] = function() return '"tokens":' .. batch(tokens, 1, fixed(512)) end,
    ["mid-tokens"] = function() return '"tokens":' .. batch(tokens, 1, fixed(128)) end,
    ["mixed-tokens"] = function() return '"tokens":' .. batch(tokens, 1, mixed) end,
    ["batch-tokens"] = function() return '"tokens":' .. batch(tokens, 32, fixed(128)) end,
    ["short-texts"] = function() return '"texts":' .. batch(text, 1, fixed(12)) end,
    ["mixed-texts"] = function() return '"texts":' .. batch(text, 1, mixed_short) end,
    ["batch-texts"] = function() return '"texts":' .. batch(text, 32, mixed_short) end,
}

function init(args)
    local kind = args[1] or "short-tokens"
    local options = ""
    if kind:sub(-6) == "-stats" then
        kind, options = kind:sub(1, -7), ',"statistics":"summary"'
    elseif kind:sub(-7) == "-base64" then
        kind, options = kind:sub(1, -8), ',"encoding_format":"base64"'
    end
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    for i = 1, 64 do
        if kind == "openai-short" then
            local body = '{"model":"' .. model .. '","input":' .. tokens(16) .. ',"encoding_format":"base64"}'
            prepared[i] = wrk.format("POST", "/v1/embeddings", nil, body)
        else
            local make = kinds[kind] or error("unknown kind " .. kind)
            prepared[i] = wrk.format("POST", "/v1/encode", nil, "{" .. make() .. options .. "}")
        end
    end
end

function request()
    at = at % #prepared + 1
    return prepared[at]
end

function response(status)
    if status ~= 200 then
        wrong = (wrong or 0) + 1
    end
end

local threads = {}
function setup(thread)
    table.insert(threads, thread)
end

-- One line of JSON after wrk's own words, for run.py.
function done(summary, latency)
    local wrong_replies = 0
    for _, thread in ipairs(threads) do
        wrong_replies = wrong_replies + (thread:get("wrong") or 0)
    end
    local errors = summary.errors
    io.write(string.format(
        '\njson {"requests":%d,"seconds":%.6f,"p50_ms":%.4f,"p90_ms":%.4f,"p99_ms":%.4f,"mean_ms":%.4f,' ..
        '"not_200":%d,"socket_errors":%d}\n',
        summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
        latency:percentile(99) / 1e3, latency.mean / 1e3, wrong_replies,
        errors.connect + errors.read + errors.write + errors.timeout))
end
