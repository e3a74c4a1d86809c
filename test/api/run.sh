#!/bin/sh
# Installs the build into an empty prefix and builds the example against it with pkg-config, and with
# CMake's find_package; checks what the libraries export and need. usage: run.sh BUILD SOURCE
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name wafer.pc)")
export PKG_CONFIG_PATH
lib=$(pkg-config --variable=libdir wafer | sed "s|^.*/lib|$work/usr/lib|")
flags=$(pkg-config --define-variable=prefix="$work/usr" --cflags --libs wafer)
# shellcheck disable=SC2086
cc -std=c17 -Wall -Wextra -Werror "$source/test/api/example.c" $flags -pthread -o "$work/example"
model=$source/models/blazeface-front/face_detection_front_128x128_barracuda.onnx
LD_LIBRARY_PATH=$lib "$work/example" "$model" wse2 >"$work/out"
grep -q 'two threads, the same' "$work/out"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(example C)
find_package(wafer 0.1 REQUIRED)
add_executable(example example.c)
target_link_libraries(example wafer::wafer)
CMAKE
cp "$source/test/api/example.c" "$work/cmake/"
cmake -G Ninja -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$work/usr" >/dev/null
cmake --build "$work/cmake/build" >/dev/null
"$work/cmake/build/example" "$model" wse2 >"$work/out"

foreign=$(nm -D --defined-only "$lib/libwafer.so" "$lib/libwafer-runtime.so" | awk 'NF == 3 && $3 !~ /^wafer_/' | head -3)
[ -z "$foreign" ] || { echo "the libraries export more than wafer_*: $foreign" >&2; exit 1; }
if ldd "$lib/libwafer-runtime.so" | grep -qi llvm; then echo "the runtime needs LLVM" >&2; exit 1; fi
[ -f "$work/usr/share/man/man1/wafer.1" ] && [ -f "$work/usr/share/wafer/machines/wse2.xml" ]
"$work/usr/bin/wafer" --version >/dev/null
echo "api: ok"
