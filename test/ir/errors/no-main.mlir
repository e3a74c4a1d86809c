// RUN: not wafer-opt %s --passes=shape 2>&1 | FileCheck %s
// CHECK: error: the module has no function @main
module {}
