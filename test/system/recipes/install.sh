#!/usr/bin/env bash
# Gets the libraries of the programs in docs/how-to/grpc.md: grpc-go into Go's own cache, grpc-java into .linters/grpc-java. Run it after
# tools/linters/install.sh, which brings a Go that is new enough. Java is for machines that have Maven and a JDK: Debian's take 300 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
linters=$(cd ../../.. && pwd)/.linters

PATH=$linters/bin:$PATH go mod download
if command -v mvn > /dev/null && command -v javac > /dev/null; then
  mvn --quiet --batch-mode dependency:copy-dependencies "-DoutputDirectory=$linters/grpc-java.new" && mv "$linters/grpc-java.new" "$linters/grpc-java" ||
    echo 'the libraries of grpc-java could not be fetched: its recipe is skipped' >&2
fi
