# The two commands of the README: `make run` and `make test`. They set up all
# that they need: cargo fetches the crates, pip the pinned Python packages into .venv.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
TARGET := $(or $(CARGO_TARGET_DIR),target)
export PATH := $(abspath $(VENV))/bin:$(PATH)
export AGENT_TEST_PYTHON := $(abspath $(VENV))/bin/python

REQUIREMENTS := tests/python/requirements.txt sensor-bridge/examples/camera-worker/requirements.txt
BINARIES := --agent-service $(TARGET)/debug/agent-service --sensor-bridge $(TARGET)/debug/sensor-bridge

.PHONY: help build run run-camera test lint deny clean-venv

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## Build both programs
	cargo build --workspace --locked

run: build ## Replay recorded detections through both programs until an agent answered
	$(PYTHON) sensor-bridge/examples/demo/run.py $(BINARIES)

run-camera: build $(VENV)/camera.done ## The same with the live worker instead of its recording
	$(AGENT_TEST_PYTHON) sensor-bridge/examples/demo/run.py $(BINARIES) --live

test: $(VENV)/tests.done ## Run the whole suite
	cargo nextest run --workspace --locked
	cargo test --workspace --doc --locked

lint: ## Formatting, clippy and documentation without a warning
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --document-private-items --locked

deny: $(VENV)/tests.done ## Licences, bans and sources of all dependencies
	cargo fetch --locked
	cargo deny --offline check bans licenses sources

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/camera.done: $(VENV)/bin/python sensor-bridge/examples/camera-worker/requirements.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r sensor-bridge/examples/camera-worker/requirements.txt
	touch $@

$(VENV)/tests.done: $(VENV)/bin/python $(REQUIREMENTS) tests/python/tools.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(REQUIREMENTS:%=-r %) -r tests/python/tools.txt
	touch $@

clean-venv: ## Remove the Python environment
	rm -rf $(VENV)
