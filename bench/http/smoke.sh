#!/bin/sh
# One request of each kind by curl: smoke.sh [URL]. Prints each answer's start; fails at the first error.
set -eu
url=${1:-http://127.0.0.1:8080}
json='Content-Type: application/json'

show() {
    echo "== $*"
    curl --fail-with-body -sS "$@" | cut -c1-300
    echo
}

show "$url/livez"
show "$url/readyz"
show "$url/v1/models"
show "$url/info"
show -H "$json" -d '{"tokens":[[101,7592,2088,102]]}' "$url/v1/encode"
show -H "$json" -d '{"tokens":[[101,7592,2088,102]],"encoding_format":"base64","statistics":"summary","layers":[0]}' "$url/v1/encode"
show -H "$json" -d '{"texts":["hello world"],"normalize":true,"dimensions":8}' "$url/v1/encode"
show -H "$json" -d '{"model":"all-MiniLM-L6-v2","input":"hello world"}' "$url/v1/embeddings"
show "$url/metrics"
