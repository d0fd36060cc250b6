#!/usr/bin/env bash
# Gets the libraries of the programs in docs/how-to/grpc.md: grpc-go into Go's own cache, grpc-java into .linters/grpc-java. Behind
# tools/linters/install.sh, which brings a Go that is new enough.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
linters=$(cd ../../.. && pwd)/.linters

PATH=$linters/bin:$PATH go mod download
mvn --quiet --batch-mode dependency:copy-dependencies "-DoutputDirectory=$linters/grpc-java"
